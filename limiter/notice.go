package limiter

import (
	"strconv"
	"time"
)

// Notice reports that a subject has used a percentage of a limit. A Limiter writes one notice for each
// subject, period and percentage of Limit.Notify. It can write a notice twice; both have the same ID.
type Notice struct {
	Time           time.Time // instant of the request or settlement that caused the notice
	Subject        Subject
	Limit          *Limit
	Percent        int
	Used, Capacity int64     // at Time
	Start, End     time.Time // the period or the window of the limit
}

// ID identifies the notice. hash identifies the subject. Notices of the same subject, limit, period and
// percentage have the same ID.
func (n *Notice) ID(hash string) string {
	return hash + "-" + n.Limit.ID.String() + "-" + strconv.FormatInt(n.Start.Unix(), 10) + "-" + strconv.Itoa(n.Percent)
}
