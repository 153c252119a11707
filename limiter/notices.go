package limiter

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/table"
)

// Notice reports that a charge raised the usage of a limit to a percentage of Limit.Notify. A process that ends between
// the charge and the notice loses it. The usage can reach a percentage again in the same period, for example after a
// refund. Another process can then write the notice again, with the same ID.
type Notice struct {
	Time           time.Time // instant of the request or settlement that caused the notice
	Subject        Subject
	Limit          *Limit
	Percent        int
	Used, Capacity int64     // usage and capacity at Time
	Start, End     time.Time // the period or the window of the limit
}

// ID identifies the notice. hash identifies the subject. Notices of the same subject, limit (and tier, if tiers keep one
// count), period and percentage have the same ID.
func (n *Notice) ID(hash string) string {
	id := hash + "-" + n.Limit.ID.String() + "-" + strconv.FormatInt(n.Start.Unix(), 10) + "-" + strconv.Itoa(n.Percent)
	if n.Limit.Rate.Of > 0 { // tiers reach a percentage at different usages
		id += "-" + strconv.FormatInt(n.Capacity, 10)
	}
	return id
}

// notices writes the notices of a Limiter. The table has the notices that this process wrote last, so that it does not
// repeat them while a sliding window stays near a percentage.
type notices struct {
	*table.Table
	write func(context.Context, Notice) error
	log   *logs
}

// reaches reports whether the usage is at least a percentage of the capacity of m.
func reaches(used int64, percent int, m algo.Machine) bool {
	return used*100 >= int64(percent)*m.Capacity()
}

// crossed writes the notices of the percentages that the charge c has reached. r is the state of its limit after it.
func (n *notices) crossed(ctx context.Context, now algo.Instant, c Charge, r algo.Result) {
	const message = "notice not written"
	used := r.Machine.Used(r.State, now)
	for _, percent := range c.Limit.Notify.List() {
		if !reaches(used, percent, r.Machine) || reaches(used-c.Cost, percent, r.Machine) {
			continue
		}
		w := algo.WindowOf(r.Machine)
		if l, ok := r.Machine.(*algo.Log); ok { // a sliding window that stores instants
			w = &algo.Window{Length: l.Length, Requests: l.Requests}
		}
		period := w.At(r.State, max(now, r.State.Newest)).Window
		one := Notice{
			Time: now.Time(), Subject: c.Subject, Limit: c.Limit, Percent: percent,
			Used: used, Capacity: r.Machine.Capacity(), Start: w.Start(period).Time(), End: w.Start(period + 1).Time(),
		}
		if !n.isNew(&one) {
			continue
		}
		if err := n.write(ctx, one); err != nil {
			if _, ok := n.log.allow(now, lineKind{message: message}, time.Second); ok {
				n.log.LogAttrs(ctx, slog.LevelWarn, message, slog.String("limit", c.Limit.Name), slog.Any("err", err))
			}
		}
	}
}

// isNew reports whether one differs from the last notice of its limit and percentage that this process knows, and
// remembers it.
func (n *notices) isNew(one *Notice) bool {
	this := table.Noticed{Limit: one.Limit.ID, Percent: one.Percent, Capacity: one.Capacity, End: one.End.UnixNano()}
	n.Lock()
	defer n.Unlock()
	e := n.Open(one.Subject)
	for i := range e.Noticed {
		if at := &e.Noticed[i]; at.Limit == this.Limit && at.Percent == this.Percent && at.Capacity == this.Capacity {
			isNew := at.End != this.End
			*at = this
			return isNew
		}
	}
	e.Noticed = append(e.Noticed, this)
	n.Changed(e)
	return true
}

// Between a charge and its settlement, other requests can raise the usage of the limit. mayCross allows for a rise by
// 1/nearPart of the limit. If other requests raised the usage by more, the notice is lost.
const nearPart = 10

// mayCross reports whether a settlement with the forced charge c can have reached a percentage. r is the state before it.
func mayCross(now algo.Instant, c Charge, r algo.Result) bool {
	used := r.Machine.Used(r.State, now)
	for _, percent := range c.Limit.Notify.List() {
		if !reaches(used, percent, r.Machine) && reaches(used+c.Cost+r.Machine.Capacity()/nearPart, percent, r.Machine) {
			return true
		}
	}
	return false
}
