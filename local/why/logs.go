package why

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
)

// Logs queries the log groups of a deployment with CloudWatch Logs Insights.
type Logs struct {
	Client *cloudwatchlogs.Client
	Groups []string // names of log groups, at most 50
	// Wait waits between two reads of the result.
	Wait func(context.Context, time.Duration) error
	// Progress gets a line when a query takes longer than two seconds.
	Progress io.Writer
}

// These bound a query. Insights runs a query for some seconds.
const (
	resultPoll = time.Second
	maxPolls   = 120
	quiet      = 2 * time.Second // until the first line of progress
	progress   = 10 * time.Second
	stopTime   = 5 * time.Second
	maxResults = 10_000 // rows of a result
)

// query returns the query of log lines of a kind. It lets Insights count, so the size of the logs does not matter. subject is
// a hash, so no text of a client is in the query. Lines that name no caller are always in the result.
func query(kind, subject string) string {
	of := ""
	if subject != "" {
		of = fmt.Sprintf(" and (subject = %q or not ispresent(subject))", subject)
	}
	return fmt.Sprintf("filter weir = %q%s"+
		" | stats sum(count) as count, earliest(time) as first, latest(time) as last, latest(capacity) as capacity,"+
		" latest(remaining) as remaining, latest(retryAfterSeconds) as retryAfter, latest(addressFrom) as addressFrom by subject, rule, `limit`"+
		" | sort count desc | limit %d", kind, of, maxResults)
}

// Ask returns the answer to q from the lines of the period of the duration since before now. subject is the hash of
// q.Subject.
func (l *Logs) Ask(ctx context.Context, q Question, subject string, now time.Time, since time.Duration) (Answer, error) {
	a := Answer{From: now.Add(-since), To: now, Rows: []Row{}}
	started, err := l.Client.StartQuery(ctx, &cloudwatchlogs.StartQueryInput{
		LogGroupNames: l.Groups, QueryString: aws.String(query(q.kind(), subject)), StartTime: aws.Int64(a.From.Unix()), EndTime: aws.Int64(now.Unix()),
	})
	if err != nil {
		return Answer{}, fmt.Errorf("CloudWatch Logs Insights: %w", err)
	}
	results, err := l.await(ctx, started.QueryId)
	if err != nil {
		return Answer{}, fmt.Errorf("CloudWatch Logs Insights: %w", err)
	}
	a.Partial = len(results) == maxResults
	for _, result := range results {
		row, err := readRow(result)
		if err != nil {
			return Answer{}, fmt.Errorf("CloudWatch Logs Insights: %w", err)
		}
		if row.Subject == "" {
			a.addUnnamed(row.Count, subject)
			continue
		}
		a.Count += row.Count
		row.Caller = q.Subject
		a.Rows = append(a.Rows, row)
	}
	a.finish(q.rows())
	return a, nil
}

// await waits for the result of a query. It stops the query if ctx ends.
func (l *Logs) await(ctx context.Context, id *string) ([][]types.ResultField, error) {
	var waited time.Duration
	for range maxPolls {
		got, err := l.Client.GetQueryResults(ctx, &cloudwatchlogs.GetQueryResultsInput{QueryId: id})
		if err != nil {
			l.stop(ctx, id)
			return nil, err
		}
		switch got.Status {
		case types.QueryStatusComplete:
			return got.Results, nil
		case types.QueryStatusScheduled, types.QueryStatusRunning, types.QueryStatusUnknown:
		default:
			return nil, fmt.Errorf("the query ended with the status %s", got.Status)
		}
		if waited == quiet || waited > 0 && waited%progress == 0 {
			fmt.Fprintf(l.Progress, "CloudWatch Logs Insights runs the query (%s) ...\n", waited)
		}
		if err := l.Wait(ctx, resultPoll); err != nil {
			l.stop(ctx, id)
			return nil, err
		}
		waited += resultPoll
	}
	l.stop(ctx, id)
	return nil, fmt.Errorf("no result after %s; ask for a shorter period", waited)
}

// stop ends a query, which costs as long as it runs. Its error does not matter, because the query ends by itself.
func (l *Logs) stop(ctx context.Context, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	_, _ = l.Client.StopQuery(ctx, &cloudwatchlogs.StopQueryInput{QueryId: id})
}

func readRow(result []types.ResultField) (r Row, err error) {
	number := func(text string) float64 {
		n, failed := strconv.ParseFloat(text, 64)
		err = errors.Join(err, failed)
		return n
	}
	instant := func(text string) time.Time {
		t, failed := time.Parse(time.RFC3339, text)
		err = errors.Join(err, failed)
		return t
	}
	for _, field := range result {
		value := aws.ToString(field.Value)
		if value == "" {
			continue
		}
		switch aws.ToString(field.Field) {
		case "subject":
			r.Subject = value
		case "rule":
			r.Rule = value
		case "limit":
			r.Limit = value
		case "count":
			r.Count = int64(number(value))
		case "first":
			r.First = instant(value)
		case "last":
			r.Last = instant(value)
		case "capacity":
			r.Capacity = int64(number(value))
		case "remaining":
			r.Remaining = int64(number(value))
		case "retryAfter":
			r.RetryAfter = number(value)
		case "addressFrom":
			r.AddressFrom = value
		}
	}
	return r, err
}
