package rules_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// notes returns those notes of a document whose message contains the text of.
func notes(t *testing.T, document, of string) (list []string) {
	t.Helper()
	for _, n := range parse(t, document).Notes() {
		if strings.Contains(n.Message, of) {
			list = append(list, fmt.Sprintf("%d %s: %s", n.Line, n.Path, n.Message))
		}
	}
	return list
}

// A note reports the kinds of callers that a rule does not limit, and whether other rules do.
func TestRules_Notes_callers(t *testing.T) {
	const rest = "; a limit by client or ip would count every caller"
	per := func(per string) string { return `{"name":"l","requests":1,"window":"1m","per":[` + per + `]}` }
	for _, c := range []struct{ document, want string }{
		{document(rule("/a", "", `"*":`+per(`"apikey"`))), `1 rules[0].limits.*: this rule does not limit callers with a token or without a ` +
			`credential` + rest},
		{document(rule("/a", "", `"*":`+per(`"user","endpoint"`))),
			`1 rules[0].limits.*: this rule does not limit callers with an API key alone or without a credential` + rest},
		{document(rule("/a", "", `"global":`+per(`"claim:org"`))),
			`1 rules[0].limits.global: this rule does not limit callers without the claim that the limit counts by` + rest},
		{document(rule("/a", "", `"free":`+limit+`,"paid":`+per(`"apikey"`))),
			`1 rules[0].limits.paid: this rule does not limit callers with a token or without a credential` + rest},
		{document(rule("/a", "", `"free":`+limit+`,"*":`+per(`"apikey"`)), rule("/b", "", `"gold":`+limit)),
			`1 rules[0].limits.*: this rule does not limit callers with a token or without a credential` + rest},
		{document(rule("/a", "", `"*":`+per(`"apikey"`)), rule("*", "", `"global":`+per(`"ip"`))),
			`1 rules[0].limits.*: this rule does not limit callers with a token or without a credential; only other rules do`},
		{document(rule("/a", "", `"*":`+per(`"apikey"`)), rule("*", "", `"*":`+per(`"user"`))),
			`1 rules[0].limits.*: this rule does not limit callers without a credential` + rest + "\n" +
				`1 rules[0].limits.*: this rule does not limit callers with a token; only other rules do` + "\n" +
				`1 rules[1].limits.*: this rule does not limit callers with an API key alone or without a credential` + rest},
		{document(rule("/a", "", `"*":`+per(`"apikey"`)), strings.Replace(rule("*", "", `"global":`+per(`"ip"`)), "{", `{"mode":"shadow",`, 1)),
			`1 rules[0].limits.*: this rule does not limit callers with a token or without a credential` + rest},
		{document(rule("/a", "", `"*":`+limit)), ""},
		{document(rule("/a", "", `"*":`+per(`"global"`))), ""},
		{document(rule("/a", "", `"*":[`+per(`"user"`)+`,`+per(`"ip"`)+`]`)), ""},
		{document(strings.Replace(rule("/a", "", `"*":`+per(`"apikey"`)), "{", `{"mode":"shadow",`, 1)), ""},
		{document(rule("/a", "", `"*":{"name":"l","requests":1,"window":"1m","per":["ip"],"only":"bad_credentials"}`)), ""},
		{document(rule("/a", "", `"*":{"name":"l","requests":1,"window":"1m","per":["ip"],"only":"unverified"}`)), ""},
	} {
		if got := strings.Join(notes(t, c.document, "callers with"), "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.document, got, c.want)
		}
	}
}

// A note reports a rule without a limit for the default tier, even if no rule names this tier. A document
// may set the standard default tier explicitly.
func TestRules_Notes_defaultTier(t *testing.T) {
	const want = `1 rules[0].limits: this rule has no limit for callers of tier free; free is the default_tier, and no rule names it`
	for limits, want := range map[string]string{
		`"paid":` + limit:                        want,
		`"paid":` + limit + `,"global":` + limit: want,
		`"paid":` + limit + `,"*":` + limit:      "",
		`"paid":` + limit + `,"free":` + limit:   "",
		`"global":` + limit:                      "",
	} {
		implicit := document(rule("/a", "", limits))
		for _, text := range []string{implicit, strings.Replace(implicit, "{", `{"default_tier":"free",`, 1)} {
			if got := strings.Join(notes(t, text, "no limit for callers"), "\n"); got != want {
				t.Errorf("%s:\n got %s\nwant %s", text, got, want)
			}
		}
	}
}

// A limit whose counts a client chooses has no note if another limit of the rule bounds the sum.
func TestRules_Notes_chosen(t *testing.T) {
	one := func(name, per, more string) string {
		return `{"name":"` + name + `","requests":9,"window":"1m","per":[` + per + `]` + more + `}`
	}
	byUser, byPath := one("sum", `"user"`, ""), one("each", `"path:id"`, "")
	each := one("each", `"user","path:id"`, "")
	for limits, want := range map[string]int{
		`"*":` + each:                       1,
		`"*":[` + each + `,` + byUser + `]`: 0,
		`"*":[` + byUser + `,` + each + `]`: 0,
		`"*":[` + each + `,` + one("sum", `"user","endpoint"`, "") + `]`:                                     0,
		`"*":` + each + `,"global":` + byUser:                                                                0,
		`"free":` + each + `,"*":` + byUser:                                                                  1,
		`"*":[` + each + `,` + one("sum", `"apikey"`, "") + `]`:                                              1,
		`"*":[` + each + `,` + one("sum", `"global"`, "") + `]`:                                              1,
		`"*":[` + each + `,` + one("sum", `"user"`, `,"mode":"mark"`) + `]`:                                  1,
		`"*":[` + each + `,` + one("sum", `"user","method"`, "") + `]`:                                       1,
		`"*":[` + byPath + `,` + byUser + `]`:                                                                1,
		`"*":[` + byPath + `,` + one("sum", `"client"`, "") + `]`:                                            0,
		`"*":[` + each + `,` + one("sum", `"user","header:x-tenant"`, "") + `]`:                              2,
		`"*":[` + one("each", `"ip","path:id"`, "") + `,` + one("sum", `"ip"`, `,"only":"unverified"`) + `]`: 1,
	} {
		if got := notes(t, document(rule("/docs/{id}", "", limits)), "a client chooses"); len(got) != want {
			t.Errorf("%s: got notes %q, want %d", limits, got, want)
		}
	}
	run := rule("/docs/{id}", "POST", `"*":`+one("run", `"header:x-run-id","client"`, ""))
	for other, want := range map[string]string{
		rule("*", "", `"*":`+one("sum", `"client"`, "")):                                                      "",
		rule("/docs/*", "POST", `"global":`+one("sum", `"client"`, "")):                                       "",
		rule("/docs/*", "GET", `"*":`+one("sum", `"client"`, "")):                                             "client",
		rule("/other", "", `"*":`+one("sum", `"client"`, "")):                                                 "client",
		rule("*", "", `"paid":`+one("sum", `"client"`, "")):                                                   "client",
		strings.Replace(rule("*", "", `"*":`+one("sum", `"client"`, "")), "{", `{"mode":"shadow",`, 1):        "client",
		strings.Replace(rule("*", "", `"*":`+one("sum", `"client"`, "")), "{", `{"except":["/docs/{x}"],`, 1): "client",
	} {
		got := strings.Join(notes(t, document(run, other), "header:x-run-id"), "\n")
		if want != "" {
			want = "1 rules[0].limits.*: a client chooses header:x-run-id, but not client: each value has its own count and its own item, so this " +
				"limit alone is no protection; put a limit by client beside it"
		}
		if got != want {
			t.Errorf("a run beside %s:\n got %s\nwant %s", other, got, want)
		}
	}
}

// A limit with notify writes notices at percentages of the number that applies to the caller. It never has a Spread,
// and weir check shows the percentages.
func TestParse_notify(t *testing.T) {
	r := storetest.Must(rules.Parse(storetest.Must(os.ReadFile("testdata/good/notify.json")), rules.Options{LeaseAbove: 1}))
	var notices []limiter.Notice
	l := storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{
		Notify: func(_ context.Context, n limiter.Notice) error { notices = append(notices, n); return nil },
	}))
	for user, want := range map[string]int64{"bob": 8, "alice": 16} { // an override gives alice 20
		notices = nil
		for range want {
			charges := r.Charges(nil, "GET", rules.EncodedPath("/a"), caller.Caller{User: user, Tier: "paid"})
			for _, c := range charges {
				if c.Limit.Spread != (limiter.Spread{}) || c.Limit.Notify == (limiter.Percentages{}) {
					t.Fatalf("limit %s: got %+v and notices at %s, want no spread and notices", c.Limit.Name, c.Limit.Spread, c.Limit.Notify)
				}
			}
			if d, err := l.Take(t.Context(), time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), charges); err != nil || !d.Allowed {
				t.Fatalf("got %+v, error %v, want a request within the limit", d, err)
			}
		}
		if len(notices) != 1 || notices[0].Percent != 80 || notices[0].Used != want || notices[0].Capacity != want*10/8 ||
			notices[0].Subject != limiter.User(user) {
			t.Errorf("%s: got notices %+v, want one of 80 %% at %d", user, notices, want)
		}
	}
}
