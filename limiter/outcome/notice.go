package outcome

import (
	"time"

	"github.com/weir-limits/weir/limiter"
)

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
