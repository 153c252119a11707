package operator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
)

// EdgeRefusal is an entry in the list of a distribution in front, which refuses requests before they reach the API.
type EdgeRefusal struct {
	Subject string    `json:"subject"`      // the address, or the id of the API key, that it refuses
	Limit   string    `json:"limit"`        // name
	Version int64     `json:"rulesVersion"` // version of the rules that refused the caller
	Until   time.Time `json:"until"`
	// CredentialsPass is true if requests with a credential pass, because the rules exempt users or API keys.
	CredentialsPass bool `json:"credentialsPass,omitempty"`
}

// listing is how a list of a distribution can contain a subject: by address, or by the id of API keys. Neither is set for any
// other subject.
type listing struct {
	addr netip.Addr
	id   string
}

func listingOf(s limiter.Subject, c *caller.Caller) (l listing) {
	switch {
	case c.IP.IsValid() && s == limiter.IP(c.IP):
		l.addr = c.IP.Addr()
	case c.APIKey != "" && s == limiter.APIKey(c.APIKey):
		l.id = c.APIKey
	}
	return l
}

// AtEdge returns the entry of a subject in a list. The subject has the form that an Explanation uses, and ipv6Bits is as in
// ParseSubject. There is at most one entry, and none for other subjects than an address or an API key.
func AtEdge(ctx context.Context, list edge.Store, now time.Time, subject string, ipv6Bits int) ([]EdgeRefusal, error) {
	o := &Operator{List: list, IPv6Bits: ipv6Bits}
	s, values, err := o.parse(subject)
	if err != nil {
		return nil, err
	}
	return o.atEdge(ctx, now, listingOf(s, &values.Caller))
}

// atEdge returns the entries of an address and of an API key's id.
func (o *Operator) atEdge(ctx context.Context, now time.Time, l listing) (all []EdgeRefusal, err error) {
	if o.List == nil {
		return nil, nil
	}
	add := func(subject limiter.Subject, r edge.Refusal, ok bool) {
		if ok {
			all = append(all, EdgeRefusal{subject.String(), r.Limit, r.Version, r.Until.UTC(), r.Credentials})
		}
	}
	if l.addr.IsValid() {
		r, ok, err := edge.LookupAddress(ctx, o.List, now, l.addr)
		if err != nil {
			return nil, err
		}
		add(limiter.IP(o.prefix(l.addr)), r, ok)
	}
	if l.id != "" {
		r, ok, err := edge.LookupOwner(ctx, o.List, now, l.id)
		if err != nil {
			return nil, err
		}
		add(limiter.APIKey(l.id), r, ok)
	}
	return all, nil
}

// explainEdge adds the entries by which the distribution refuses the request q of a caller. It passes requests that charge
// no limit: OPTIONS, exempt requests, and those that come around it.
func (o *Operator) explainEdge(ctx context.Context, now time.Time, q *Question, c *caller.Caller, e *Explanation) error {
	if len(e.Limits) == 0 {
		return nil
	}
	l := listing{id: c.APIKey}
	if c.IP.IsValid() {
		l.addr = c.IP.Addr()
	}
	all, err := o.atEdge(ctx, now, l)
	credential := q.Token != "" || q.APIKey != "" || q.User != "" || q.APIKeyID != ""
	e.Edge = slices.DeleteFunc(all, func(r EdgeRefusal) bool { return credential && r.CredentialsPass })
	return err
}

// unreadList is the note of an answer without the list.
func unreadList(err error) string {
	return fmt.Sprintf("the list of the distribution cannot be read, so the answer does not say whether it refuses the caller: %v", err)
}

// unlist removes the entries of an address, or of an API key's id, and returns their number.
func (o *Operator) unlist(ctx context.Context, now time.Time, l listing) (int, error) {
	switch {
	case o.List == nil:
	case l.addr.IsValid():
		return edge.RemoveAddress(ctx, o.List, now, l.addr)
	case l.id != "":
		return edge.RemoveOwner(ctx, o.List, now, l.id)
	}
	return 0, nil
}

// UnlistPath is the path at which a local gateway removes a subject from the list of its distribution. See [Path].
const UnlistPath = Path + "unlist"

// Unlisted is the number of entries that were removed from the list of a distribution.
type Unlisted struct {
	Listed int `json:"listed"`
}

// UnlistHandler removes subjects from the list at UnlistPath. Without a list, it removes none. The caller must check the
// request, as for Handler.
func (o *Operator) UnlistHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Answer(w, r, func(ctx context.Context, a about) (u Unlisted, err error) {
			s, values, err := o.parse(a.Subject)
			if err != nil {
				return u, err
			}
			u.Listed, err = o.unlist(ctx, o.Clock(), listingOf(s, &values.Caller))
			return u, err
		})
	})
}

// Unlist removes a subject from the list of the gateway's distribution.
func (c *Client) Unlist(ctx context.Context, subject string) (Unlisted, error) {
	return Ask[Unlisted](ctx, c, UnlistPath, about{subject})
}
