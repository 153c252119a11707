package telemetry

import (
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/outcome"
)

type noticeLine struct {
	Weir      string    `json:"weir"` // always "notice"
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Subject   string    `json:"subject"`
	Rule      string    `json:"rule,omitempty"`
	Limit     string    `json:"limit"`
	outcome.Notice
}

// Notice writes a line for a notice, and counts it. It writes every notice at once.
func (r *Recorder) Notice(n limiter.Notice) {
	if r == nil || r.out == nil {
		return
	}
	hash := r.hash(n.Subject)
	line := noticeLine{"notice", n.Time.UTC(), r.namespace, hash, n.Limit.Rule, n.Limit.Name, outcome.NewNotice(&n, hash)}
	r.writing.Lock()
	_ = r.out.Encode(line) // an error of the log cannot be reported anywhere else
	r.writing.Unlock()
	r.count(n.Time.UnixNano(), func() { r.metrics.notices++ })
}
