package document

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzNames compares the checks of names with regular expressions.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "search", "Search", "a b", "_free", "free", "-", "claim:", "claim:org", "claim:a b", "claim:a\u00a0b", "claim:\xff", "claim:\v", "é", "\xff", "a\n", strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 64), strings.Repeat("a", 65), "claim:" + strings.Repeat("é", 64), "claim:" + strings.Repeat("é", 65)} {
		f.Add(s)
	}
	name, tier, claim := regexp.MustCompile(`^[a-z0-9_-]{1,32}$`), regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`), regexp.MustCompile(`^claim:[^\s]{1,64}$`)
	f.Fuzz(func(t *testing.T, s string) {
		if isName(s) != name.MatchString(s) || isTier(s) != tier.MatchString(s) || isClaim(s) != claim.MatchString(s) {
			t.Errorf("%q: got name %t, tier %t, claim %t; want %t, %t, %t", s, isName(s), isTier(s), isClaim(s), name.MatchString(s), tier.MatchString(s), claim.MatchString(s))
		}
	})
}
