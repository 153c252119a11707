package telemetry

import (
	"context"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// LineNotice is the kind of a NoticeLine.
const LineNotice = "notice"

// NoticeLine is the line of a notice.
type NoticeLine struct {
	Kind      string    `json:"weir"` // always LineNotice
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Subject   string    `json:"subject"`
	Rule      string    `json:"rule,omitempty"`
	Limit     string    `json:"limit"`
	Notice
}

// Notice writes a line for a notice, and counts it. It writes every notice at once.
func (r *Recorder) Notice(_ context.Context, n limiter.Notice) error {
	if r == nil || r.out == nil {
		return nil
	}
	hash := r.hash(n.Subject)
	line := &NoticeLine{LineNotice, n.Time.UTC(), r.namespace, hash, n.Limit.Rule, n.Limit.Name, NewNotice(&n, hash)}
	r.writing.Lock()
	_ = r.out.Encode(line) // an error of the log cannot be reported anywhere else
	r.writing.Unlock()
	r.count(n.Time.UnixNano(), func() { r.metrics.add(Notices, 1) })
	return nil
}

// Notice is a limiter.Notice in the form in which logs and decision events contain it.
type Notice struct {
	ID       string    `json:"id"`       // equal for all copies of the notice
	Percent  int       `json:"percent"`  // percentage of Capacity that the subject has used
	Used     int64     `json:"used"`     // used quota when the notice was written
	Capacity int64     `json:"capacity"` // capacity of the subject's own limit
	Start    time.Time `json:"start"`    // start of the period
	End      time.Time `json:"end"`      // end of the period
}

// NewNotice returns n in this form. hash is the hash of its subject.
func NewNotice(n *limiter.Notice, hash string) Notice {
	return Notice{n.ID(hash), n.Percent, n.Used, n.Capacity, n.Start.UTC(), n.End.UTC()}
}
