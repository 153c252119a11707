package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// rulesPoll is how often the file of the rules is looked at, so that who edits it is told.
// Functions in processes of their own look at it by themselves, when a request comes.
const rulesPoll = 500 * time.Millisecond

// watchRules looks at the file of the rules until ctx ends.
func (s *Server) watchRules(ctx context.Context) {
	for tick := time.NewTicker(rulesPoll); ; {
		select {
		case <-tick.C:
			_ = s.live.Refresh(ctx, s.Clock()) // tellRules is told
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// tellRules says which rules are in force since the file has changed, or why they are not.
func (s *Server) tellRules(_ time.Time, n live.Reload) {
	switch problems, mistaken := errors.AsType[rules.Problems](n.Err); {
	case n.Changed:
		fmt.Fprintf(s.Out, "rules  %s (%s, version %d) are in force now\n", s.Rules, count(n.Rules.Len()), n.Rules.Version())
		if len(n.Restarts) > 0 {
			fmt.Fprintf(s.Out, "rules  counts that restart: %s\n", listed(n.Restarts))
		}
	case n.Err == nil || n.Repeated:
	case mistaken:
		fmt.Fprintf(s.Out, "rules  %s has mistakes; version %d stays in force\n  %s\n", s.Rules, n.Rules.Version(), strings.ReplaceAll(problems.Error(), "\n", "\n  "))
	default:
		fmt.Fprintf(s.Out, "rules  %v; version %d stays in force\n", n.Err, n.Rules.Version())
	}
}

// listed joins the first of some names.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
