package caller_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/caller"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]caller.Rate{
		"5000/1m": {Requests: 5000, Window: time.Minute}, "2000000": {Requests: 2000000}, "1/1s": {Requests: 1, Window: time.Second},
		"9/36h": {Requests: 9, Window: 36 * time.Hour}, "999999999999999": {Requests: 999999999999999},
		"9/100d": {Requests: 9, Window: 100 * 24 * time.Hour}, "1000000000/90s": {Requests: 1e9,
			Window: 90 * time.Second},
	} {
		if got, err := caller.ParseRate(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: got %v (%s), %v; want %v", text, got, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "+5", "1000000000000000", "5/", "5/0s", "5/1", "5/1.5s", "5/101d", "5/-1m", "5/1m/1m",
		"5/128d",
		" 5", "5/999ms", strings.Repeat("9", 65)} {
		if got, err := caller.ParseRate(text); err == nil {
			t.Errorf("%.30q: got %v, want an error", text, got)
		}
	}
}

// AnchorOf returns a weekday only for a week, and a day of the month only for a month.
func TestLimits_AnchorOf(t *testing.T) {
	for _, c := range []struct{ anchor, week, month string }{{"31", "", "31"}, {"friday", "friday", ""}, {"", "", ""}} {
		l, err := caller.NewLimits(nil, c.anchor, 1)
		if err != nil || l.AnchorOf(algo.Week) != c.week || l.AnchorOf(algo.Month) != c.month || l.AnchorOf(algo.Day) != "" ||
			l.AnchorOf("") != "" {
			t.Errorf("%q: got week %q, month %q, %v; want %q and %q", c.anchor, l.AnchorOf(algo.Week), l.AnchorOf(algo.Month), err, c.week, c.month)
		}
	}
}

// Limits out of bounds are an error.
func TestNewLimits(t *testing.T) {
	many := map[string]caller.Rate{}
	for i := range 21 {
		many[fmt.Sprint("limit-", i)] = caller.Rate{Requests: 1}
	}
	for _, c := range []struct {
		rates   map[string]caller.Rate
		anchor  string
		changed int64
		want    string
	}{
		{many, "", 1, "got 21 limits, want at most 20"},
		{map[string]caller.Rate{"a b": {Requests: 1}}, "", 1, `limit "a b": invalid name`},
		{map[string]caller.Rate{"a": {}}, "", 1, "limit a: requests: out of range (got 0"},
		{map[string]caller.Rate{"a": {Requests: 1, Window: time.Millisecond}}, "", 1, "limit a: window: out of range"},
		{nil, "0", 1, `anchor: invalid (got "0"`}, {nil, "32", 1, "anchor: invalid"}, {nil, "01", 1, "anchor: invalid"},
		{nil, "Monday", 1, "anchor: invalid"},
		{nil, "", 0, "changed: out of range"}, {nil, "", 1<<40 + 1, "changed: out of range"},
	} {
		if _, err := caller.NewLimits(c.rates, c.anchor, c.changed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60v, %q, %d: got %v, want %q", c.rates, c.anchor, c.changed, err, c.want)
		}
	}
}

// Records in a file have limits in JSON. A mistake there is an error.
func TestParseAPIKeys_limits(t *testing.T) {
	secret := []byte("a secret of the test")
	file := func(limits string) []byte {
		return []byte(`[{"id":"acme","hash":"` + caller.HashAPIKey(secret, "key") + `","limits":` + limits + `}]`)
	}
	keys, err := caller.ParseAPIKeys(file(`{"rates":{"search":"5000/1m"},"anchor":31,"changed":7}`), secret)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := caller.New(caller.Options{APIKeys: keys}).Caller(t.Context(), time.Time{}, caller.Credentials{APIKey: "key"})
	if err != nil || identity.Limits.String() != "search=5000/1m anchor=31" {
		t.Errorf("got %+v, %v; want the limits of the record", identity, err)
	}
	if r, ok := keys.Find("acme"); !ok || r.Limits.Changed() != 7 {
		t.Errorf("find: got %+v, want the record", r)
	}
	if _, ok := keys.Find("nobody"); ok {
		t.Error("find an unknown id: got a record, want none")
	}
	for _, limits := range []string{`{"rates":{"search":"5000/1m"}}`, `{"anchor":32,"changed":7}`, `[]`,
		`{"rates":{"search":5},"changed":7}`} {
		if _, err := caller.ParseAPIKeys(file(limits), secret); err == nil {
			t.Errorf("%s: got no error, want one", limits)
		}
	}
}

// FuzzParseLimits searches for a text whose limits change if they are formatted and parsed again, or that
// sets a limit despite a mistake.
func FuzzParseLimits(f *testing.F) {
	f.Add(`{"rates":{"month":"2000000","search":"5000/1m"},"anchor":31,"changed":1767225600}`)
	f.Add(`{"anchor":"monday","changed":1}`)
	f.Add(`{"anchor":"31","changed":1e3}`)
	f.Add(`{"rates":{"a":"5/1m"},"changed":99999999999999}`)
	f.Fuzz(func(t *testing.T, text string) {
		l := caller.ParseLimits(text)
		if l.Mistake() != nil {
			if len(l.Names()) > 0 || l.Anchor() != "" || l.Changed() < 0 || l.Changed() > 1<<40 {
				t.Errorf("%q: got %s with the mistake %v, want no limits", text, l, l.Mistake())
			}
			return
		}
		again := caller.ParseLimits(l.Text())
		if again.Mistake() != nil || again.Text() != l.Text() || again.String() != l.String() || again.Changed() != l.Changed() {
			t.Errorf("%q: got %s after another parse (%v), want %s", text, again.Text(), again.Mistake(), l.Text())
		}
		rates := map[string]caller.Rate{}
		for _, name := range l.Names() {
			rates[name], _ = l.Rate(name)
		}
		made, err := caller.NewLimits(maps.Clone(rates), l.Anchor(), l.Changed())
		encoded, _ := json.Marshal(made)
		if err != nil || made.Text() != l.Text() || string(encoded) != l.Text() {
			t.Errorf("%q: got %s from its parts, %v; want %s", text, encoded, err, l.Text())
		}
	})
}
