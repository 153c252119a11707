package main

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/operator"
)

func explainCommand() *cobra.Command {
	var t target
	var q operator.Question
	var claims, headers []string
	c := &cobra.Command{
		Use:   "explain METHOD PATH",
		Short: "Show which rules and limits apply to a request, and its answer",
		Long: "Show which rules apply to a request, and why other rules for its path do not apply. Show the limits that the request charges " +
			"and their usage, and the answer that it would get now. The command charges and changes nothing." + targetHelp +
			"\n\nTo verify a --token of a deployment, also set JWKS, JWT_ISSUER and JWT_AUDIENCE.",
		Example: "  weir explain GET /api/v1/search\n" +
			"  weir explain GET /api/v1/search --user alice --tier paid\n" +
			"  weir explain POST /api/v1/data --token \"$(weir token --user alice)\" --json\n" +
			"  weir explain GET /api/v1/search --apikey-id acme --ip 203.0.113.7 \\\n" +
			"    --store dynamodb://Weir-prod-LimitsCounters1234 --namespace prod",
		Args: command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			q.Method, q.Path = strings.ToUpper(args[0]), args[1]
			q.Claims, err = parseClaims(claims)
			if err != nil {
				return err
			}
			q.Headers, err = parseHeaders(headers)
			if err != nil {
				return err
			}
			return t.each(c, func(to operating) (any, func(*printer), error) {
				e, err := to.Explain(c.Context(), q)
				return e, func(p *printer) { p.explanation(e) }, err
			})
		},
	}
	c.Flags().StringVar(&q.User, "user", "", "the user, as if a verified token named it")
	c.Flags().StringVar(&q.Tier, "tier", "", "the tier; default: the tier of the API key's record, else default_tier of the rules document")
	c.Flags().StringArrayVar(&claims, "claim", nil, "another claim of the token, as name=value; may be repeated, and a repeated name is a "+
		"list")
	c.Flags().StringArrayVar(&headers, "header", nil, "a header field by which limits count, or one of a distribution, as 'Name: value'; "+
		"may be repeated")
	c.Flags().StringVar(&q.APIKeyID, "apikey-id", "", "the id of an API key, as weir keys list shows it; its record sets tier and limits")
	c.Flags().StringVar(&q.APIKey, "apikey", "", "an API key, in place of --apikey-id")
	c.Flags().StringVar(&q.IP, "ip", "", "the client's address; default 127.0.0.1 for the gateway on this machine")
	c.Flags().StringVar(&q.Token, "token", "", "a token, in place of --user, --tier and --claim")
	t.flags(c)
	return c
}

// parseHeaders parses header fields of the form "Name: value".
func parseHeaders(list []string) (http.Header, error) {
	headers := http.Header{}
	for _, header := range list {
		name, value, ok := strings.Cut(header, ":")
		if !ok || name == "" {
			return nil, command.Usage("--header: got %q, want 'Name: value'", header)
		}
		headers.Add(name, strings.TrimSpace(value))
	}
	return headers, nil
}

// sourceOf returns the source of the rules as the end of a sentence.
func sourceOf(source string) string {
	if source == "" {
		return ""
	}
	return ", from " + source
}

func (p *printer) explanation(e operator.Explanation) {
	p.line("%s %s by %s, tier %s, under rules of %s%s", p.Bold(e.Method), p.Bold(e.Path), p.Bold(e.Caller.Subject), e.Caller.Tier,
		command.RulesVersion(e.Version), sourceOf(e.Source))
	if len(e.Readings) > 0 {
		p.line("%s %q", p.Bold("readings of the path:"), e.Readings)
	}
	p.hash(e.Caller.Hash)
	if e.Caller.IPFrom != "" {
		p.line("%s %s, from %s", p.Bold("address:"), cmp.Or(e.Caller.IP, "unknown"), e.Caller.IPFrom)
	}
	if e.Caller.Rejected != "" {
		p.line("%s %s", p.Bad("the credential is rejected:"), e.Caller.Rejected)
	}
	p.matched(e)
	blocked := e.Decision.Status == http.StatusForbidden && !e.Decision.Unrouted
	if e.Others > 0 && !blocked {
		p.line("  %s", p.Weak(plural(e.Others, "rule")+" for other paths"))
	}
	p.interventions(e.Interventions)
	p.line("\n%s", p.Bold("limits"))
	switch x := e.Exempt; {
	case blocked:
		p.line("  none is charged: the caller is blocked")
	case x != nil:
		p.line("  none: %s (%s) exempts the %s %s", x.Path, x.Name, x.Kind, x.Value)
	case len(e.Limits) == 0:
		p.line("  none: the request is not limited")
	}
	p.limits(e.Limits, e.At, usageOf)
	p.line("\n%s  %s", p.Bold("now"), verdict(p.Style, e))
	p.notes(e.Notes)
}

func (p *printer) matched(e operator.Explanation) {
	p.line("\n%s", p.Bold("rules"))
	charges := "charges "
	if e.Decision.Unrouted {
		charges = "would charge "
	}
	var rows [][]string
	for _, r := range e.Rules {
		does := "charges no limit"
		if r.Charges > 0 {
			does = charges + plural(r.Charges, "limit")
		}
		rows = append(rows, []string{"  " + r.Path, cmp.Or(r.Method, "any"), r.Endpoint,
			strings.Join(append([]string{does}, r.Reasons...), "; ")})
	}
	p.table(rows...)
}

func (p *printer) hash(hash string) {
	if hash != "" {
		p.line("%s %s", p.Bold("in logs, metrics and events:"), hash)
	}
}

// verdict describes the answer that the request would get now, such as "429 by search".
func verdict(s command.Style, e operator.Explanation) string {
	d := e.Decision
	var text string
	switch {
	case d.Allowed:
		text = s.Good("allowed")
		if d.DelaySeconds > 0 {
			text += fmt.Sprintf(", after %s in the queue", seconds(d.DelaySeconds))
		}
	case d.Unrouted:
		text = s.Bad("not routed") + ": no API has a route for it, and no limit decides"
	case d.Status == http.StatusBadRequest:
		text = s.Bad("400") + ": see the notes, or the path has a . or .. segment, or a % without two hexadecimal digits (a REST API answers 429)"
	case d.Status == http.StatusForbidden:
		text = s.Bad("403") + ": an operator has blocked the caller (a REST API answers 429)"
	case d.Status == http.StatusUnauthorized:
		text = s.Bad("401") + ": the credential is rejected (" + e.Caller.Rejected + ")"
	case d.Status == http.StatusServiceUnavailable && d.Degraded == "":
		text = s.Bad("503") + ": the token cannot be verified"
	case d.Status == http.StatusServiceUnavailable:
		text = s.Bad("503") + ": the store failed, and on_error is deny"
	case slices.ContainsFunc(e.Limits, func(l operator.LimitUsage) bool { return l.Path == d.Limit && concurrent(l) }):
		text = s.Bad("429") + " by " + d.Limit + ", Retry-After: 1 to 3 (it passes when a request ends)"
	default:
		text = s.Bad("429") + " by " + d.Limit + fmt.Sprintf(", Retry-After: %d (it passes in %s)", d.RetryAfter, seconds(d.RetryAfterSeconds))
	}
	if d.Over != "" {
		text += "; marked as over " + d.Over
	}
	if d.Shadowed != "" {
		text += "; " + d.Shadowed + ", in shadow mode, would refuse"
	}
	if d.Degraded != "" {
		text += "; degraded: " + d.Degraded
	}
	return text
}

func (p *printer) limits(limits []operator.LimitUsage, at time.Time, describe func(operator.LimitUsage, time.Time) string) {
	var rows [][]string
	for _, l := range limits {
		rows = append(rows, []string{"  " + l.Name, l.Path, l.Subject, strings.Join(numbers(l), ", "), describe(l, at)})
	}
	p.table(rows...)
}

// numbers returns the parameters of a limit that have no default value, as text.
func numbers(l operator.LimitUsage) []string {
	words := []string{fmt.Sprintf("%s %d in %s", l.Algorithm, l.Requests, windowOf(l))}
	if concurrent(l) {
		words[0] = fmt.Sprintf("%d in flight, each for at most %s", l.Requests, windowOf(l))
	}
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(l.Burst > 0, "burst %d", l.Burst)
	add(l.Count != "" && !concurrent(l) && l.Reserve == nil, "counts %s, reserves %d", l.Count, l.Cost)
	if r := l.Reserve; r != nil {
		add(true, "counts %s, reserves %s of the request's body: %d without it, at most %d", l.Count, r.JSON, r.Default, r.Most)
		add(l.Cost != r.Most, "each times its price, at most %d", l.Cost)
	}
	add(l.Cost != 1 && l.Count == "", "cost %d", l.Cost)
	add(l.AcrossTiers, "one count across tiers")
	add(l.PartOf > 0, "the part of a tier of %d", l.PartOf)
	add(l.Shared, "shared by regions")
	add(l.Overridden, "overridden")
	add(l.Mode != "enforce", "%s", l.Mode)
	add(len(l.Notify) > 0, "notices at %s %%", strings.Trim(fmt.Sprint(l.Notify), "[]"))
	add(l.Lease > 1, "lease %d", l.Lease)
	add(l.Shards > 0, "%d shards", l.Shards)
	add(l.SyncMS > 0, "sync %d ms", l.SyncMS)
	add(l.OnError != "allow", "on_error %s", l.OnError)
	add(l.LocalProcesses > 1, "1/%d each", l.LocalProcesses)
	return words
}

func concurrent(l operator.LimitUsage) bool { return l.Count == string(limiter.CountConcurrent) }

func windowOf(l operator.LimitUsage) string {
	switch {
	case l.Period == "":
		return seconds(float64(l.WindowSeconds))
	case l.Anchor == "":
		return fmt.Sprintf("a %s (%s)", l.Period, l.TimeZone)
	}
	return fmt.Sprintf("a %s from %s (%s)", l.Period, l.Anchor, l.TimeZone)
}

func usageOf(l operator.LimitUsage, at time.Time) string {
	s, inFlight := l.State, concurrent(l)
	text := fmt.Sprintf("%d of %d left", s.Remaining, cmp.Or(s.Share, s.Capacity))
	if s.Share > 0 {
		text += " here"
	}
	if inFlight {
		text = fmt.Sprintf("%d of %d in flight", s.Capacity-s.Remaining+s.Debt, s.Capacity)
	}
	if s.Debt > 0 && !inFlight {
		text += fmt.Sprintf(", in debt by %d", s.Debt)
	}
	switch {
	case s.Never:
		text += ", costs more than its capacity"
	case !s.Passes && inFlight:
		text += ", passes when a request ends, at the latest in " + seconds(s.RetryAfterSeconds)
	case !s.Passes:
		text += ", passes in " + seconds(s.RetryAfterSeconds)
	}
	if full := s.FullAt.Sub(at); full > 0 && !inFlight {
		text += ", full in " + seconds(full.Seconds())
	}
	if s.Superseded {
		text += "; superseded: other rules' parameters decide"
	}
	return text
}
