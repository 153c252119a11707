package operator

import (
	"context"

	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/rules"
)

// Own returns the answer of the usage endpoint to the caller of q, even if the rules have no such
// endpoint. It ignores the other fields of q.
func (o *Operator) Own(ctx context.Context, q Question) (own httplimit.Usage, err error) {
	now := o.Clock()
	c, rejected, _, err := o.caller(ctx, now, q)
	if err != nil {
		return own, err
	}
	if rejected != nil || c.User == "" && c.APIKey == "" {
		return own, Mistake("caller: no verified identity; the usage endpoint answers 401 (want a user or an API key)")
	}
	r := o.Rules(ctx, now)
	listed, complete := r.Own(rules.Request{Caller: c})
	own = httplimit.Usage{Subject: c.Subject().String(), Tier: r.Tier(c.Tier), Truncated: !complete}
	own.Limits, err = httplimit.ReadUsage(ctx, o.Limiters[0], now, listed)
	return own, err
}
