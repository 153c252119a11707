package account_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	watch "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/verify/account"
)

// checkAll returns the observations of all rows, by ID.
func checkAll(t *testing.T, s *account.Stack) map[string]verify.Observation {
	t.Helper()
	all := map[string]verify.Observation{}
	for _, row := range account.Rows() {
		all[row] = s.Check(t.Context(), row)
	}
	return all
}

// with returns the rows with an outcome, sorted.
func with(all map[string]verify.Observation, outcome verify.Outcome) (ids []string) {
	for row, o := range all {
		if o.Outcome == outcome {
			ids = append(ids, row)
		}
	}
	slices.Sort(ids)
	return ids
}

// Each row passes for a healthy account, and leaves no change.
func TestStack_Check(t *testing.T) {
	s := healthy(t).open(t)
	all := checkAll(t, s)
	if got := with(all, verify.Pass); !slices.Equal(got, account.Rows()) {
		t.Errorf("passing rows: got %v, want all of %v: %+v", got, account.Rows(), all)
	}
	if left := s.Left(); len(left) > 0 {
		t.Errorf("left: got %v, want nothing", left)
	}
}

// The rows that make no call find nothing of theirs in a template. The other rows, which the credentials do not permit, find
// it. The row alarm-arrives needs the name of an alarm, which the template of a release computes.
func TestStack_Check_templates(t *testing.T) {
	oneRegion := []string{"appconfig", "deploy", "elasticache-login", "events", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription", "signing-keys-policy"}
	regions := []string{"appconfig", "deploy", "elasticache-login", "events", "settlement-subscription", "signing-keys-policy"}
	for _, c := range []struct {
		template   string
		store      string
		conditions []string // of the template of a release that hold
		want       []string // the rows without a call
	}{
		{template: "golden/everything", want: []string{"appconfig", "deploy", "regions-reached", "regions-settings", "regions-tables"}},
		{template: "golden/dynamodb", want: oneRegion}, {template: "golden/cloudfront", want: oneRegion}, {template: "golden/regions", want: regions}, {template: "golden/regions-two", want: regions},
		{"standalone/weir", "dynamodb", []string{"HasIssuer", "HasRestApi", "HasViewerAddress", "NotHasVpc", "NotUsesElastiCache"}, slices.Concat(oneRegion, []string{"alarm-arrives", "authorizer-metric", "http-route-settings"})},
		{"standalone/weir", "redis", []string{"HasIssuer", "HasIssuerUsesElastiCache", "HasRestApi", "HasViewerAddress", "NotHasVpc", "NotHasVpcUsesElastiCache", "UsesElastiCache"}, []string{"alarm-arrives", "appconfig", "authorizer-metric", "deploy", "events", "http-route-settings", "regions-reached", "regions-settings", "regions-tables", "settlement-subscription"}},
	} {
		t.Run(c.template+" "+c.store, func(t *testing.T) {
			template, err := os.ReadFile("../../../infra/" + c.template + ".template.json")
			if err != nil {
				t.Fatal(err)
			}
			here := &cloud{templates: map[string]string{"": string(template)}, conditions: c.conditions, parameters: map[string]string{"ApiKeyHeader": "x-other", "DirectRequests": "refuse"}}
			s := here.open(t)
			if release := c.store != ""; release && (s.APIKeyHeader() != "x-other" || !s.RefusesDirect()) {
				t.Errorf("settings: got the header %q and refusal %t, want those of the parameters", s.APIKeyHeader(), s.RefusesDirect())
			}
			here.fail = func(string) string { return "AccessDenied" }
			var got []string
			for row, o := range checkAll(t, s) {
				if !strings.Contains(o.Reason, "do not permit the call") {
					got = append(got, row)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("rows without a call: got %v, want %v", got, c.want)
			}
		})
	}
}

// Each row that needs a stack has a function that tests it. No other row has one.
func TestRows(t *testing.T) {
	var want []string
	for _, r := range verify.Rows() {
		if slices.Contains(r.Needs, verify.NeedStack) {
			want = append(want, r.ID)
		}
	}
	slices.Sort(want)
	if got := account.Rows(); !slices.Equal(got, want) {
		t.Errorf("tests: got %v, want %v", got, want)
	}
}

// A change is undone after an interrupt. If the change cannot be undone, Left returns the command that
// undoes it.
func TestStack_BreakAuthorizer(t *testing.T) {
	c := healthy(t)
	s := c.open(t)
	var log strings.Builder
	s.Log = &log
	for _, before := range []*int32{nil, aws.Int32(7)} {
		c.concurrency = before
		ctx, interrupt := context.WithCancel(t.Context())
		restore, err := s.BreakAuthorizer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.concurrency; got == nil || *got != 0 {
			t.Errorf("broken: got %v, want 0", got)
		}
		interrupt()
		if err := restore(ctx); err != nil {
			t.Fatal(err)
		}
		if got := c.concurrency; (got == nil) != (before == nil) || aws.ToInt32(got) != aws.ToInt32(before) {
			t.Errorf("restored: got %v, want %v", got, before)
		}
	}
	if !strings.Contains(log.String(), "aws lambda delete-function-concurrency --function-name weir-dev-authorizer") {
		t.Errorf("log: got %s, want the command that undoes the change", log.String())
	}
	failToRestore(t, c, s)
}

// failToRestore tests calls that fail while the reserved concurrency of 7 is restored.
func failToRestore(t *testing.T, c *cloud, s *account.Stack) {
	t.Helper()
	failing := func(limit int) {
		failures := 0
		c.fail = func(operation string) string {
			if failures == limit || !strings.Contains(operation, "Concurrency") {
				return ""
			}
			failures++
			return "AccessDeniedException"
		}
	}
	restore, err := s.BreakAuthorizer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	failing(1)
	if err := restore(t.Context()); err != nil || aws.ToInt32(c.concurrency) != 7 || len(s.Left()) > 0 {
		t.Errorf("a call that fails once: got error %v, left %v, want 7 restored", err, s.Left())
	}
	if restore, err = s.BreakAuthorizer(t.Context()); err != nil {
		t.Fatal(err)
	}
	failing(-1)
	if err := restore(t.Context()); err == nil {
		t.Error("restore: got no error, want one")
	}
	if left := s.Left(); len(left) != 1 || !strings.Contains(left[0], "aws lambda put-function-concurrency --reserved-concurrent-executions 7 --function-name weir-dev-authorizer --region us-east-1") {
		t.Errorf("left: got %v, want the command with the region", left)
	}
	// The reserved concurrency is still 0. The next run must not use this 0 as the value to restore.
	c.fail = nil
	if _, err := s.BreakAuthorizer(t.Context()); err == nil || !strings.Contains(err.Error(), "aws lambda delete-function-concurrency --function-name weir-dev-authorizer --region us-east-1") {
		t.Errorf("a reserved concurrency of 0: got error %v, want the command that removes it", err)
	}
}

// After the row, even after an interrupted one, the alarm has its former state.
func TestStack_alarmTopic(t *testing.T) {
	c := healthy(t)
	s := c.open(t)
	degraded := c.alarm("weir-dev-degraded")
	ctx, interrupt := context.WithCancel(t.Context())
	s.Wait = func(context.Context, time.Duration) error { interrupt(); return ctx.Err() }
	degraded.AlarmActions = nil // the row waits for an action
	if o := s.Check(ctx, "alarm-arrives"); o.Outcome == verify.Pass || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("interrupted: got %+v and %v, want no pass", o, ctx.Err())
	}
	if degraded.StateValue != watch.StateValueOk {
		t.Errorf("alarm: got the state %s, want OK", degraded.StateValue)
	}
	degraded.StateValue, c.calls = watch.StateValueAlarm, nil
	if o := s.Check(t.Context(), "alarm-arrives"); o.Outcome != verify.Skip || slices.Contains(c.calls, "SetAlarmState") {
		t.Errorf("an alarm that has started: got %+v and the calls %v, want a skip and no change", o, c.calls)
	}
}

// A call that the credentials do not permit skips its row, whichever of its calls it is.
func TestStack_denied(t *testing.T) {
	for _, row := range account.Rows() {
		c := healthy(t)
		s := c.open(t)
		c.calls = nil
		s.Check(t.Context(), row)
		calls := slices.Compact(slices.Sorted(slices.Values(c.calls)))
		if len(calls) == 0 && row != "deploy" {
			t.Errorf("%s: got no call, want one", row)
		}
		for _, denied := range calls {
			c := healthy(t)
			s := c.open(t)
			c.fail = func(operation string) string { return map[string]string{denied: "AccessDenied"}[operation] }
			if o := s.Check(t.Context(), row); o.Outcome != verify.Skip || !strings.Contains(o.Reason, "do not permit") {
				t.Errorf("%s without %s: got %+v, want a skip with the reason", row, denied, o)
			}
		}
	}
}
