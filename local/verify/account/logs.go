package account

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

// These bound a search in logs. CloudWatch also returns pages without a match.
const (
	maxLines = 5
	maxPages = 50
)

// matches are the log lines that match a filter pattern. The oldest lines of each log are first.
type matches struct {
	texts []string
	first time.Time // of the first line
	cut   bool      // there are more pages than maxPages
}

// search searches log groups for at most maxLines lines.
func (s *Stack) search(ctx context.Context, groups []string, pattern string, from, to time.Time) (m matches) {
	read := 0
	for _, group := range groups {
		pages := cloudwatchlogs.NewFilterLogEventsPaginator(s.logs, &cloudwatchlogs.FilterLogEventsInput{
			LogGroupName: &group, FilterPattern: &pattern, StartTime: aws.Int64(from.UnixMilli()), EndTime: aws.Int64(to.UnixMilli()), Limit: aws.Int32(maxLines),
		})
		for ; s.err == nil && pages.HasMorePages() && len(m.texts) < maxLines; read++ {
			if m.cut = read == maxPages; m.cut {
				return m
			}
			page, err := pages.NextPage(ctx)
			if err != nil {
				s.keep(fmt.Errorf("log group: %w", err))
				return m
			}
			for _, e := range page.Events {
				if at := time.UnixMilli(aws.ToInt64(e.Timestamp)); m.first.IsZero() || at.Before(m.first) {
					m.first = at
				}
				m.texts = append(m.texts, strings.TrimSpace(aws.ToString(e.Message)))
			}
		}
	}
	return m
}

// Logs describes the logs of the functions that decide requests.
type Logs struct {
	Namespace, RecordsTable, IPv6Bits string // variables of the functions; "" if they are not set
	Groups                            []string
}

// Logs returns the logs of the functions that decide requests, including functions with the layer.
func (s *Stack) Logs() (l Logs) {
	var deciding []Resource
	for _, r := range s.of(functionType) {
		own := variables(r)
		value := func(name string) string {
			return cmp.Or(s.value(own[name]), s.value(own[contract.LayerVariable(name)]))
		}
		if namespace := value(contract.VariableNamespace); namespace != "" {
			l.Namespace, l.RecordsTable, l.IPv6Bits = namespace, cmp.Or(l.RecordsTable, value(contract.VariableRecordsTable)), cmp.Or(l.IPv6Bits, value("IPV6_BITS"))
			deciding = append(deciding, r)
		}
	}
	l.Groups = s.logsOf(deciding)
	return l
}

func (s *Stack) logsOf(functions []Resource) (groups []string) {
	for _, f := range functions {
		if group := s.value(verify.At(f.Properties, "LoggingConfig", "LogGroup")); group != "" {
			groups = append(groups, group)
		}
	}
	return groups
}

// clean tests that the logs have no line that is newer than a time and matches a pattern.
func (s *Stack) clean(ctx context.Context, since time.Time, pattern, expected string) verify.Observation {
	groups := s.logsOf(s.weirFunctions())
	if len(groups) == 0 {
		return skipped("the stack has no log group of a function")
	}
	found := s.search(ctx, groups, pattern, since, latest())
	if found.cut && len(found.texts) == 0 {
		return skipped(fmt.Sprintf("the logs are longer than the %d pages that were read, which have no match; search the rest by hand", maxPages))
	}
	return verdict(expected, fmt.Sprintf("none in %d logs", len(groups)), found.texts)
}

// logErrors tests that the logs have no error since the run began. Older errors cause a warning, because
// their cause may be gone.
func (s *Stack) logErrors(ctx context.Context) verify.Observation {
	const pattern = `{ $.level = "ERROR" }`
	o := s.clean(ctx, s.began, pattern, "no line of level ERROR since this run began")
	if o.Outcome != verify.Pass {
		return o
	}
	switch before := s.search(ctx, s.logsOf(s.weirFunctions()), pattern, s.began.Add(-recent), s.began.Add(-time.Millisecond)); {
	case len(before.texts) > 0:
		o.Warning = fmt.Sprintf("errors in the hour before this run, the first at %s UTC", clock(before.first))
	case before.cut:
		o.Warning = fmt.Sprintf("of the hour before this run, only %d pages were read", maxPages)
	}
	return o
}

// logSubjectKey also tests the hour before the run, because an environment logs the line once and then uses a random key until it ends.
func (s *Stack) logSubjectKey(ctx context.Context) verify.Observation {
	return s.clean(ctx, s.began.Add(-recent), `"subject hash key not read"`, "no line: subject hash key not read")
}
