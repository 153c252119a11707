package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
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
			"    --store dynamodb --table Weir-prod-LimitsCounters1234 --namespace prod",
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
			return t.explain(c, q)
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
	completeTiers(c, &t.rules)
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return []string{"GET", "POST", "PUT", "PATCH", "DELETE"}, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// parseHeaders parses header fields of the form "Name: value".
func parseHeaders(list []string) (map[string]string, error) {
	headers := map[string]string{}
	for _, header := range list {
		name, value, ok := strings.Cut(header, ":")
		if !ok || name == "" {
			return nil, command.Usage("--header: got %q, want 'Name: value'", header)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

func (t *target) explain(c *cobra.Command, q operator.Question) error {
	return usageOrFailure(t.each(c, func(to operating) (any, func(io.Writer) error, error) {
		e, err := to.Explain(c.Context(), q)
		return e, func(out io.Writer) error { return printExplanation(out, e) }, err
	}))
}

// sourceOf returns the source of the rules as the end of a sentence.
func sourceOf(source string) string {
	if source == "" {
		return ""
	}
	return ", from " + source
}

func printExplanation(out io.Writer, e operator.Explanation) error {
	s := command.StyleOf(out)
	fmt.Fprintf(out, "%s %s by %s, tier %s, under rules of %s%s\n", s.Bold(e.Method), s.Bold(e.Path), s.Bold(e.Caller.Subject), e.Caller.Tier,
		command.RulesVersion(e.Version), sourceOf(e.Source))
	if len(e.Readings) > 0 {
		fmt.Fprintf(out, "%s %q\n", s.Bold("readings of the path:"), e.Readings)
	}
	printHash(out, s, e.Caller.Hash)
	if e.Caller.IPFrom != "" {
		fmt.Fprintf(out, "%s %s, from %s\n", s.Bold("address:"), cmp.Or(e.Caller.IP, "unknown"), e.Caller.IPFrom)
	}
	if e.Caller.Rejected != "" {
		fmt.Fprintf(out, "%s %s\n", s.Bad("the credential is rejected:"), e.Caller.Rejected)
	}
	fmt.Fprintf(out, "\n%s\n", s.Bold("rules"))
	charges := "charges "
	if e.Decision.Unrouted {
		charges = "would charge "
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range e.Rules {
		does := "charges no limit"
		if r.Charges > 0 {
			does = charges + plural(r.Charges, "limit")
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", r.Path, cmp.Or(r.Method, "any"), r.Endpoint, strings.Join(append([]string{does}, r.Reasons...),
			"; "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	blocked := e.Decision.Status == http.StatusForbidden && !e.Decision.Unrouted
	if e.Others > 0 && !blocked {
		fmt.Fprintf(out, "  %s\n", s.Weak(plural(e.Others, "rule")+" for other paths"))
	}
	printInterventions(out, e.Interventions)
	fmt.Fprintf(out, "\n%s\n", s.Bold("limits"))
	switch x := e.Exempt; {
	case blocked:
		fmt.Fprintln(out, "  none is charged: the caller is blocked")
	case x != nil:
		fmt.Fprintf(out, "  none: %s (%s) exempts the %s %s\n", x.Path, x.Name, x.Kind, x.Value)
	case len(e.Limits) == 0:
		fmt.Fprintln(out, "  none: the request is not limited")
	}
	if err := printLimits(out, e.Limits, e.At, usageOf); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s  %s\n", s.Bold("now"), verdict(s, e))
	return printNotes(out, s, e.Notes)
}

func printHash(out io.Writer, s command.Style, hash string) {
	if hash != "" {
		fmt.Fprintf(out, "%s %s\n", s.Bold("in logs, metrics and events:"), hash)
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
	case slices.ContainsFunc(e.Limits, func(l operator.Limit) bool { return l.Path == d.Limit && concurrent(l) }):
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

func printLimits(out io.Writer, limits []operator.Limit, at time.Time, describe func(operator.Limit, time.Time) string) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range limits {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\n", l.Name, l.Path, l.Subject, strings.Join(numbers(l), ", "), describe(l, at))
	}
	return t.Flush()
}

// numbers returns the parameters of a limit that have no default value, as text.
func numbers(l operator.Limit) []string {
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
	add(l.Count != "" && !concurrent(l), "counts %s, reserves %d", l.Count, l.Cost)
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

func concurrent(l operator.Limit) bool { return l.Count == string(limiter.CountConcurrent) }

func windowOf(l operator.Limit) string {
	switch {
	case l.Period == "":
		return seconds(float64(l.WindowSeconds))
	case l.Anchor == "":
		return fmt.Sprintf("a %s (%s)", l.Period, l.TimeZone)
	}
	return fmt.Sprintf("a %s from %s (%s)", l.Period, l.Anchor, l.TimeZone)
}

func usageOf(l operator.Limit, at time.Time) string {
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
