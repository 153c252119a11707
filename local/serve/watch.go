package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/local/command"
)

// rulesPoll is the interval between checks of the rules file. It is short, so that an edit is reported
// soon. A function in a separate process checks the file itself when a request arrives.
const rulesPoll = 500 * time.Millisecond

// watchRules checks the rules file until ctx ends.
func (s *Server) watchRules(ctx context.Context) {
	for tick := time.NewTicker(rulesPoll); ; {
		select {
		case <-tick.C:
			_ = s.live.Refresh(ctx, s.Clock()) // reloaded prints the result
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// metricsPoll is the interval between checks of the waiting metrics. A Recorder writes them once a second.
const metricsPoll = 50 * time.Millisecond

// flushMetrics writes waiting metrics until ctx ends. A function in a separate process writes them itself when a request
// arrives.
func (s *Server) flushMetrics(ctx context.Context) {
	for tick := time.NewTicker(metricsPoll); ; {
		select {
		case <-tick.C:
			for _, r := range s.recorders {
				r.Flush(s.Clock())
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// flushAll writes all that waits, so that an answer has the refusals of the last second. Functions in separate processes
// write those with their next request.
func (s *Server) flushAll(now time.Time) {
	for _, r := range s.recorders {
		r.FlushAll(now)
	}
}

// reloaded keeps the result of a reload for the console, and prints it. The distribution no longer refuses by older rules.
func (s *Server) reloaded(now time.Time, n live.Reload) {
	r := Reload{Since: s.reload.Load().Since, Problem: n.Err}
	if n.Changed {
		r.Since = now
	}
	s.reload.Store(&r)
	s.printReload(now, n)
}

// printReload prints the rules in force after a change of the file, or the problems of the file.
func (s *Server) printReload(now time.Time, n live.Reload) {
	switch problems, mistaken := errors.AsType[rules.Problems](n.Err); {
	case n.Changed:
		fmt.Fprintf(s.Out, "rules  %s (%s, %s) are in force now\n", s.Rules, count(n.Rules.Len()), command.RulesVersion(n.Rules.Version()))
		if len(n.Restarts) > 0 {
			fmt.Fprintf(s.Out, "rules  counts restart, because they move to other items: %s\n", listed(n.Restarts))
		}
		s.warn(n.Rules)
	case n.Err == nil && n.Intervened:
		for _, i := range n.Rules.Interventions().List {
			if !i.Ended(now) {
				fmt.Fprintf(s.Out, "rules  %s\n", i.String())
			}
		}
	case n.Err == nil || n.Repeated:
	case mistaken:
		fmt.Fprintf(s.Out, "rules  %s has mistakes; %s stays in force\n  %s\n", s.Rules, command.RulesVersion(n.Rules.Version()),
			strings.ReplaceAll(problems.Error(), "\n", "\n  "))
	default:
		fmt.Fprintf(s.Out, "rules  %v; %s stays in force\n", n.Err, command.RulesVersion(n.Rules.Version()))
	}
}

// listed joins the first few names.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
