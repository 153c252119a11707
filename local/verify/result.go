package verify

import (
	"context"
	"strings"
	"unicode"
)

// Outcome is the outcome of a row.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "FAIL"
	Skip Outcome = "skip"
)

// Result is what a test of a row found.
type Result struct {
	Row     string  `json:"row"`
	Claim   string  `json:"claim"`
	Outcome Outcome `json:"outcome"`
	// Detail is what was observed, what was wanted and got, or why the row was skipped.
	Detail string `json:"detail"`
	// Answer is the answer that shows a failure, shortened.
	Answer string `json:"answer,omitempty"`
	// Requests is the number of requests that the row sent.
	Requests int
}

// Run tests the rows of a plan, in their order, and calls the function end after each. An error means that ctx ended; the
// results so far are valid.
func Run(ctx context.Context, p *Plan, end func(Result)) (results []Result, err error) {
	s := newSession(p)
	defer s.client.CloseIdleConnections()
	for i, row := range Rows() {
		before, r := s.sent, skipped(p.missing(row))
		switch {
		case r.Detail != "":
		case i > 0 && results[0].Outcome == Fail && row.Need != "--routes": // it would repeat that failure
			r = skipped("the row " + results[0].Row + " failed")
		default:
			r = row.check(s, ctx)
		}
		if err := ctx.Err(); err != nil {
			return results, err
		}
		r.Row, r.Claim, r.Requests = row.ID, row.Claim, s.sent-before
		results = append(results, r)
		end(r)
	}
	return results, nil
}

func passed(observed string) Result { return Result{Outcome: Pass, Detail: printable(observed)} }

func skipped(reason string) Result { return Result{Outcome: Skip, Detail: printable(reason)} }

func failed(want, got string, a answer) Result {
	return Result{Outcome: Fail, Detail: printable("want " + want + ", got " + got), Answer: printable(a.String())}
}

// printable replaces the characters with which an answer could control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
