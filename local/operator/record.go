package operator

import (
	"context"
	"fmt"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

// readRecord reads the record of the caller's API key into c, and returns the record. unknown is an error
// if no key has the id. If the records cannot be read, readRecord returns the zero Record and a note that
// says so.
func (o *Operator) readRecord(ctx context.Context, c *caller.Caller) (r caller.Record, notes []string, unknown error) {
	if c.APIKey == "" {
		return r, nil, nil
	}
	if o.Record == nil {
		return r, []string{"the records of API keys are not known here (RECORDS_TABLE): the answer lacks the tier and the limits of the key's " +
			"record"}, nil
	}
	r, ok, err := o.Record(ctx, c.APIKey)
	switch {
	case err != nil:
		return caller.Record{}, []string{fmt.Sprintf("the answer lacks the tier and the limits of the key's record, which cannot be read: %v",
			err)}, nil
	case !ok:
		return caller.Record{}, nil, fmt.Errorf("%w: no API key has the id %q", caller.ErrInvalidCredential, c.APIKey)
	}
	c.Limits = r.Limits
	return r, nil, nil
}

func recordNotes(r *rules.Rules, limits *caller.Limits, listed []rules.Listed) (notes []string) {
	for _, name := range r.UnknownLimits(limits) {
		notes = append(notes, fmt.Sprintf("the record of the key sets the limit %s, but the rules have no limit of this name", name))
	}
	seen := map[string]bool{}
	for _, l := range listed {
		if l.Ignored != nil && !seen[l.Ignored.Error()] {
			seen[l.Ignored.Error()] = true
			notes = append(notes, "ignored in the key's record: "+l.Ignored.Error())
		}
	}
	return notes
}
