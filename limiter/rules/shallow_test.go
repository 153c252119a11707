package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// A note reports every bucket that fills in less than 250 ms. Other buckets have no such note.
func TestParse_shallow(t *testing.T) {
	for limit, want := range map[string]string{
		`"requests":100,"window":"1s","algorithm":"token_bucket","burst":20`: "rules[0].limits.free: the bucket fills in 200ms",
		`"requests":100,"window":"1s","algorithm":"leaky_bucket","burst":24`: "rules[0].limits.free: the bucket fills in 240ms",
		`"requests":100,"window":"1s","algorithm":"token_bucket","burst":25`: "",
		`"requests":100,"window":"1s"`:                                       "",
	} {
		r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/a","limits":{"free":{`+limit+`}}}]}`), rules.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if notes := fmt.Sprint(r.Notes()); !strings.Contains(notes, want) || want == "" && strings.Contains(notes, "fills") {
			t.Errorf("%s: notes: got %s, want %q", limit, notes, want)
		}
	}
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"/a","limits":{"free":{"requests":100,"window":"1m"}}}],
		"overrides":[{"user":"u","limits":{"a":{"requests":3000,"window":"1m","algorithm":"token_bucket","burst":1}}}]}`), rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if notes, want := fmt.Sprint(r.Notes()), "overrides[0].limits.a: the bucket fills in 20ms"; !strings.Contains(notes, want) {
		t.Errorf("notes: got %s, want %q", notes, want)
	}
}
