package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/weir-limits/weir/local/verify"
)

// rows are the functions that test the rows of package verify that need an account, by the ID of the row.
var rows = map[string]func(*Stack, context.Context) verify.Observation{
	"deploy":                  (*Stack).complete,
	"drift":                   (*Stack).drift,
	"alarm-states":            (*Stack).alarmStates,
	"alarm-metrics":           (*Stack).alarmMetrics,
	"alarm-arrives":           (*Stack).alarmTopic,
	"http-route-settings":     (*Stack).routeSettings,
	"domain-mappings":         (*Stack).domainMappings,
	"functions-active":        (*Stack).functionsActive,
	"vpc-policy":              (*Stack).functionNetwork,
	"role-policies":           (*Stack).rolePolicies,
	"role-permissions":        (*Stack).rolePermissions,
	"metrics":                 (*Stack).metricsArrive,
	"authorizer-metric":       (*Stack).authorizerMetric,
	"settlement-subscription": (*Stack).settlementSubscription,
	"dashboard":               (*Stack).dashboardSearch,
	"log-errors":              (*Stack).logErrors,
	"subject-key-policy":      (*Stack).logSubjectKey,
	"signing-keys-policy":     (*Stack).signingKeysWritten,
	"regions-tables":          (*Stack).regionsTables,
	"regions-settings":        (*Stack).regionsSettings,
	"regions-reached":         (*Stack).regionsReached,
	"elasticache-login":       (*Stack).cacheLogin,
}

// Check implements [verify.Account]. If a row could not reach AWS, Check skips all later rows.
func (s *Stack) Check(ctx context.Context, row string) verify.Observation {
	check, ok := rows[row]
	if !ok {
		return skipped("no test of an account")
	}
	if s.lost != "" {
		return skipped("AWS did not answer the row " + s.lost)
	}
	s.err = nil
	o := check(s, ctx)
	err := s.err
	failure, answered := errors.AsType[smithy.APIError](err)
	switch _, unsent := errors.AsType[*smithyhttp.RequestSendError](err); {
	case err == nil:
		return o
	case answered && strings.Contains(failure.ErrorCode(), "AccessDenied"):
		return skipped("your credentials do not permit the call: " + err.Error())
	case unsent, answered && strings.HasPrefix(failure.ErrorCode(), "ExpiredToken"):
		s.lost = row
	}
	return verify.Observation{Outcome: verify.Fail, Expected: "an answer of AWS", Observed: "an error", Raw: err.Error()}
}

// keep keeps the first error of a row, which Check reports. It reports whether the row can go on.
func (s *Stack) keep(err error) bool {
	if s.err == nil {
		s.err = err
	}
	return s.err == nil
}

// pause waits, unless the row has an error. It reports whether the row can go on.
func (s *Stack) pause(ctx context.Context, d time.Duration) bool {
	return s.err == nil && s.keep(s.Wait(ctx, d))
}

func skipped(reason string) verify.Observation {
	return verify.Observation{Outcome: verify.Skip, Reason: reason}
}

func verdict(expected, observed string, problems []string) verify.Observation {
	if len(problems) == 0 {
		return verify.Observation{Outcome: verify.Pass, Expected: expected, Observed: observed}
	}
	return verify.Observation{
		Outcome: verify.Fail, Expected: expected, Observed: fmt.Sprintf("%d problems", len(problems)), Raw: shorten(strings.Join(problems, "\n")),
	}
}

// problem returns a problem, or none.
func problem(found bool, format string, values ...any) []string {
	if !found {
		return nil
	}
	return []string{fmt.Sprintf(format, values...)}
}

// maxRaw is the maximum length of the raw answer of an observation, in bytes.
const maxRaw = 4 << 10

func shorten(text string) string {
	if len(text) <= maxRaw {
		return text
	}
	return strings.ToValidUTF8(text[:maxRaw], "") + " …"
}

// Rows returns the IDs of the rows that [Stack.Check] tests.
func Rows() []string { return sorted(rows) }
