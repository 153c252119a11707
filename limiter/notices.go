package limiter

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// Notice reports that a subject has used a percentage of a limit. A Limiter writes one notice for each
// subject, period and percentage of Limit.Notify. It can write a notice twice; both have the same ID.
type Notice struct {
	Time           time.Time // instant of the request or settlement that caused the notice
	Subject        Subject
	Limit          *Limit
	Percent        int
	Used, Capacity int64     // usage and capacity at Time
	Start, End     time.Time // the period or the window of the limit
}

// ID identifies the notice. hash identifies the subject. Notices of the same subject, limit, period and
// percentage have the same ID.
func (n *Notice) ID(hash string) string {
	return hash + "-" + n.Limit.ID.String() + "-" + strconv.FormatInt(n.Start.Unix(), 10) + "-" + strconv.Itoa(n.Percent)
}

// noticeGrace is the time that the process whose charge crossed a percentage has to write the notice and
// its flag. After that time, other processes write a notice that has no flag.
const noticeGrace = 10 * time.Second

// notices writes the notices of a Limiter: each percentage of Limit.Notify has a flag in the store, for each
// subject and period. A process writes a notice first and sets the flag afterwards. A process that ends
// between the two causes a second notice, but none is lost.
//
// A flag is a count of 1 on a subject of its own. Therefore, flags add nothing to the item that each
// request writes, and every store supports them.
type notices struct {
	*table
	store   Store
	write   func(context.Context, Notice) error
	timeout time.Duration
	log     *logs
}

// observed is a charge and the state of its limit.
type observed struct {
	Charge
	algo.Result
}

func (u *observed) flag(percent int) ID { return u.Limit.flags[percent].ID }

// window returns the windows in which u counts; nil if newer rules replaced them by another algorithm. A sliding
// window that stores instants has the windows of its flags.
func (u *observed) window() *algo.Window {
	if algo.KeepsInstants(u.Machine) {
		return algo.WindowOf(u.Limit.flags[0].machine)
	}
	return algo.WindowOf(u.Machine)
}

func (u *observed) period(now algo.Instant) int64 {
	w := u.window()
	return w.At(u.State, max(now, u.State.Newest)).Window
}

// flaggedAt returns the instant at which a flag of u is charged. If the clock is behind the period of u, it is the
// start of that period.
func (u *observed) flaggedAt(now algo.Instant) algo.Instant {
	return max(now, u.window().Start(u.period(now)))
}

// reaches reports whether the usage is at least a percentage of the capacity of m.
func reaches(used int64, percent int, m algo.Machine) bool {
	return percent > 0 && used*100 >= int64(percent)*m.Capacity()
}

// Between a charge and its settlement, other requests can raise the usage of the limit. near allows for a rise
// by 1/nearPart of the limit. If other requests raised the usage by more, a later request writes the notice.
const nearPart = 10

// near reports whether a forced charge of u.Cost can have raised the usage to a percentage that has no
// flag. u has the state before that charge.
func (n *notices) near(now algo.Instant, u *observed) bool {
	if u.window() == nil {
		return false
	}
	used := u.Machine.Used(u.State, now) + u.Cost + u.Machine.Capacity()/nearPart
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, percent := range u.Limit.Notify {
		if !reaches(used, percent, u.Machine) {
			continue
		}
		if at := n.known(u.Subject, u.flag(i)); at == nil || !at.flagged || at.period != u.period(now) {
			return true
		}
	}
	return false
}

// due returns the percentages whose notices this process has to write now. These are the percentages that
// the charge of u crossed, and percentages that were reached earlier but have no flag after the grace time.
func (n *notices) due(now algo.Instant, u *observed) (due []int) {
	m, l := u.Machine, u.Limit
	if u.window() == nil {
		return nil
	}
	used := m.Used(u.State, now)
	if !reaches(used, l.Notify[0], m) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, percent := range l.Notify {
		if !reaches(used, percent, m) {
			continue
		}
		at := n.at(u.Subject, u.flag(i), u.period(now))
		if at == nil || at.flagged {
			continue
		}
		switch crossed := !reaches(used-u.Cost, percent, m); {
		case crossed, at.since != 0 && now.Sub(at.since).Abs() >= noticeGrace:
			at.since = now
			due = append(due, i)
		case at.since == 0:
			at.since = now
		}
	}
	return due
}

// known returns what this process knows about a notice; nil if it knows nothing. The caller holds the lock.
func (n *notices) known(subject Subject, flag ID) *noticed {
	all := n.of(subject).noticed
	for i := range all {
		if all[i].flag == flag {
			return &all[i]
		}
	}
	return nil
}

// at returns what this process knows about the notice of a period; nil if the period has ended. The caller
// holds the lock.
func (n *notices) at(subject Subject, flag ID, period int64) *noticed {
	at := n.known(subject, flag)
	switch {
	case at == nil:
		e := n.open(subject)
		e.noticed = append(e.noticed, noticed{flag: flag, period: period})
		n.changed(e)
		return &e.noticed[len(e.noticed)-1]
	case at.period > period:
		return nil
	case at.period < period:
		*at = noticed{flag: flag, period: period}
	}
	return at
}

// bounded returns ctx with the deadline of all notices of a decision, or of a settlement of one subject. It is not the
// deadline of the decision, because a slow call of the store would leave no time for them.
func (n *notices) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), n.timeout)
}

// after writes the notices of the due percentages after a charge, and returns the number of store calls.
func (n *notices) after(ctx context.Context, now algo.Instant, u *observed, due []int) (calls int) {
	unflagged, err := n.unflagged(ctx, now, u, due)
	if err != nil {
		n.log.problem(ctx, now, slog.LevelWarn, "flags of notices not read", err)
		return 1
	}
	written := n.writeAll(ctx, now, u, unflagged)
	if len(written) == 0 {
		return 1
	}
	if _, err := n.take(ctx, now, u, written, 1); err != nil {
		n.log.problem(ctx, now, slog.LevelWarn, "notice not flagged; a later request repeats it", err)
		return 2
	}
	n.setFlagged(u, now, written)
	return 2
}

// unflagged returns those of the due percentages that have no flag.
func (n *notices) unflagged(ctx context.Context, now algo.Instant, u *observed, due []int) (unflagged []int, err error) {
	results, err := n.take(ctx, now, u, due, 0)
	if err != nil {
		return nil, err
	}
	var flagged []int
	for i, percent := range due {
		if m := results[i].Machine; m != nil && m.Used(results[i].State, u.flaggedAt(now)) > 0 {
			flagged = append(flagged, percent)
		} else {
			unflagged = append(unflagged, percent)
		}
	}
	n.setFlagged(u, now, flagged)
	return unflagged, nil
}

// take charges the cost to the flags of the percentages. With cost 0 it reads them.
func (n *notices) take(ctx context.Context, now algo.Instant, u *observed, percentages []int, cost int64) ([]algo.Result, error) {
	flags, results := make([]Charge, len(percentages)), make([]algo.Result, len(percentages))
	for i, percent := range percentages {
		flags[i] = Charge{Subject: flagsOf(u.Subject), Limit: u.Limit.flags[percent], Cost: cost, Force: cost > 0}
	}
	_, err := n.store.Take(ctx, u.flaggedAt(now), flags[0].Subject, flags, results)
	return results, err
}

// writeAll writes the notices of percentages, and returns the percentages whose notices it wrote.
func (n *notices) writeAll(ctx context.Context, now algo.Instant, u *observed, percentages []int) (written []int) {
	const message = "notice not written; a later request repeats it"
	w, period := u.window(), u.period(now)
	for _, percent := range percentages {
		err := n.write(ctx, Notice{
			Time: now.Time(), Subject: u.Subject, Limit: u.Limit, Percent: u.Limit.Notify[percent],
			Used: u.Machine.Used(u.State, now), Capacity: u.Machine.Capacity(), Start: w.Start(period).Time(), End: w.Start(period + 1).Time(),
		})
		if err == nil {
			written = append(written, percent)
		} else if _, ok := n.log.allow(now, lineKind{message: message}, time.Second); ok {
			n.log.LogAttrs(ctx, slog.LevelWarn, message, slog.String("limit", u.Limit.Name), slog.Any("err", err))
		}
	}
	return written
}

// flagsOf returns the subject that has the flags of the notices of s.
func flagsOf(s Subject) Subject { return s.And(Subject{other, "notice"}) }

func (n *notices) setFlagged(u *observed, now algo.Instant, percentages []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, percent := range percentages {
		if at := n.known(u.Subject, u.flag(percent)); at != nil && at.period == u.period(now) {
			at.flagged = true
		}
	}
}
