package limiter_test

import (
	"testing"

	"github.com/weir-limits/weir/limiter"
)

// ParseID accepts only the text that String returns.
func FuzzParseID(f *testing.F) {
	for _, s := range []string{limiter.NewID("search").String(), "", "00000000", "0000000", "VVVVVVVV", "vvvvvvvv", "0000\n0000", "00000000=", "WWWWWWWW", "0000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := limiter.ParseID(s)
		if err == nil && id.String() != s {
			t.Errorf("%q: parsed as %s, want an error", s, id)
		}
	})
}
