package verify

import (
	"context"
	"fmt"
	"slices"
)

// Progress observes a run.
type Progress struct {
	Begin func(Row)    // called before the test of a row
	End   func(Result) // called after it
}

// Run tests the rows of a plan, in their order. An error means that ctx ended; the results so far are
// valid.
func Run(ctx context.Context, p *Plan, progress Progress) ([]Result, error) {
	s := newSession(p)
	defer s.close()
	var results []Result
	for _, row := range p.rows {
		if progress.Begin != nil {
			progress.Begin(row)
		}
		before := s.sent
		o := s.check(ctx, row, results)
		if err := ctx.Err(); err != nil {
			return results, err
		}
		r := Result{Row: row.ID, Claim: row.Claim, Observation: o, Hand: row.Hand, Requests: s.sent - before}
		results = append(results, r)
		if progress.End != nil {
			progress.End(r)
		}
	}
	return results, nil
}

// check tests a row, unless something is missing or an earlier row failed.
func (s *session) check(ctx context.Context, row Row, earlier []Result) Observation {
	if reason := s.plan.missing(row); reason != "" {
		return skipped(reason)
	}
	for _, r := range earlier {
		if r.Outcome == Fail && slices.Contains(row.After, r.Row) {
			return skipped(fmt.Sprintf("the row %s failed", r.Row))
		}
	}
	return row.Check(ctx, s)
}
