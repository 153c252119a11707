package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/why"
)

// weir why shows why the gateway refused a caller, at once and without a further request.
func TestWhy(t *testing.T) {
	l := newLocal(t, serve.Memory, "../serve/testdata/design.json")
	token := l.token("alice")
	for range 60 { // the limit admits 20
		l.search(token)
	}
	l.search("")
	t.Setenv("WEIR_URL", l.rest.URL)
	a := answers[why.Refusals](t, "why", "user:alice", "--since", "10m")
	if a.Count != 40 || len(a.Rows) != 1 || a.Rows[0].Caller != "user:alice" || a.Rows[0].Rule != "GET /api/v1/search" ||
		a.Rows[0].Limit != "search" || a.Rows[0].Capacity != 20 {
		t.Fatalf("got %+v, want 40 refusals of alice by the limit search", a)
	}
	for _, args := range [][]string{{"why", "user:alice"}, {"why"}} {
		code, out, errs := weir(t, args...)
		lines := strings.Split(out, "\n")
		if code != 0 || errs != "" || len(lines) != 4 || !strings.HasSuffix(lines[0], "40 refused in the last 1h at "+l.rest.URL) ||
			strings.HasPrefix(lines[0], "user:alice: ") != (len(args) > 1) ||
			strings.Join(strings.Fields(lines[1]), " ") != "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN" || !strings.HasPrefix(lines[2],
			"40     user:alice  GET /api/v1/search  search  20") || !strings.Contains(lines[2], "0 of 20  ") {
			t.Errorf("%q: got exit %d, stderr %q, output\n%s", args, code, errs, out)
		}
	}
	if _, help, _ := weir(t, "why", "--help"); !strings.Contains(strings.Join(strings.Fields(help), " "),
		"A limit whose per lacks endpoint counts for several rules, so the command shows its name") {
		t.Errorf("help: got %s, want what RULE shows for a limit without endpoint", help)
	}
	for args, want := range map[string]string{
		"why user:zoe": "user:zoe: 0 refused in the last 1h at " + l.rest.URL +
			"\nthis does not count 401s; the log of the gateway or functions has them as \"credential refused\"\n",
		"why --shadow --since 1m": "0 would have been refused by limits in shadow mode in the last 1m at " + l.rest.URL + "\n",
	} {
		if code, out, errs := weir(t, strings.Fields(args)...); code != 0 || out != want || errs != "" {
			t.Errorf("%s: got exit %d, output %q, stderr %q, want %q", args, code, out, errs, want)
		}
	}
}

// The answer about a caller shows the refusals whose lines name no caller, and what an answer leaves out.
func TestWhyOptions_print(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	row := why.Row{Subject: "aaaa", Count: 2, First: at, Last: at}
	behind := row
	behind.AddressFrom = "host (Weir-Origin-Secret: missing)"
	for _, c := range []struct {
		caller string
		shadow bool
		answer why.Refusals
		want   []string
	}{
		{"user:a", false, why.Refusals{Unnamed: 9}, []string{"user:a: 0 refused in the last 1m at here",
			"9 more are in log lines that name no caller, and can be of this one"}},
		{"", false, why.Refusals{Count: 9, Unnamed: 9}, []string{"9 refused in the last 1m at here",
			"9 of them are in log lines that name no caller"}},
		{"", false, why.Refusals{Count: 5, Others: 3, Rows: []why.Row{row}}, []string{
			"5 refused in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN", "2 aaaa - - T T - -",
			"3 are not in the table; --number shows more rows",
		}},
		{"", false, why.Refusals{Count: 2, Rows: []why.Row{behind}}, []string{
			"2 refused in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN", "2 aaaa - - T T - -",
			"the last address of aaaa is from host (Weir-Origin-Secret: missing)",
		}},
		{"", true, why.Refusals{Count: 2, Rows: []why.Row{row}}, []string{
			"2 would have been refused by limits in shadow mode in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST", "2 aaaa - - T T",
		}},
	} {
		o := whyOptions{url: "here", since: time.Minute, shadow: c.shadow}
		var p printer
		o.print(&p, c.caller, c.answer)
		got := strings.ReplaceAll(p.String(), at.Local().Format("2006-01-02 15:04:05 MST"), "T")
		var lines []string
		for line := range strings.Lines(got) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if !slices.Equal(lines, c.want) {
			t.Errorf("%+v: got\n%s\nwant\n%s", c.answer, got, strings.Join(c.want, "\n"))
		}
	}
}

func TestWhy_mistakes(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"a b":                       {2, `weir: arguments: got ["a" "b"], want one CALLER, or none`},
		"--since 5":                 {2, `weir: invalid argument "5" for "--since" flag: want a duration with a unit, such as 5m`},
		"--since soon":              {2, `weir: invalid argument "soon" for "--since" flag: want a duration with a unit, such as 10m`},
		"--url http://site.example": {2, `weir: url: got "http://site.example", want the URL of a gateway on this machine`},
		"--url http://127.0.0.1:1":  {1, "weir: no gateway at 127.0.0.1:1: "},
	} {
		code, out, errs := weir(t, append([]string{"why"}, strings.Fields(args)...)...)
		if code != want.code || out != "" || !strings.HasPrefix(errs, want.text) || strings.Count(errs, "\n") != want.code {
			t.Errorf("why %s: got exit %d, output %q, stderr %q, want exit %d and %q", args, code, out, errs, want.code, want.text)
		}
	}
}
