package document

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzNames compares the checks of names and tokens with regular expressions.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "search", "Search", "a b", "_free", "free", "-", "claim:", "claim:org", "claim:a b", "claim:a\u00a0b",
		"claim:\xff", "claim:\v", "é", "\xff", "a\n", strings.Repeat("a", 32), strings.Repeat("a", 33), strings.Repeat("a", 64),
		strings.Repeat("a", 65), "claim:" + strings.Repeat("é", 64), "claim:" + strings.Repeat("é", 65)} {
		f.Add(s)
	}
	for _, s := range []string{"5xx", "6xx", "5xxx", "X-Cost", "x-cost", "Weir-Cost", "X-To\u212aens", "X-", "X-RateLimit-Limit",
		"Content-Type", "x_cost", "$ref", "a$", "*", "9a", "-a", "a-1*"} {
		f.Add(s)
	}
	name, tier, claim := regexp.MustCompile(`^[a-z0-9_-]{1,32}$`), regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`),
		regexp.MustCompile(`^claim:[^\s]{1,64}$`)
	class := regexp.MustCompile(`^[1-5]xx$`)
	key := regexp.MustCompile(`^[A-Za-z_$*][A-Za-z0-9_*-]{0,63}$`)
	f.Fuzz(func(t *testing.T, s string) {
		if isName(s) != name.MatchString(s) || isTier(s) != tier.MatchString(s) || isClaim(s) != claim.MatchString(s) {
			t.Errorf("%q: got name %t, tier %t, claim %t; want %t, %t, %t", s, isName(s), isTier(s), isClaim(s), name.MatchString(s),
				tier.MatchString(s), claim.MatchString(s))
		}
		if isClassOfStatuses(s) != class.MatchString(s) {
			t.Errorf("%q: got class of statuses %t, want %t", s, isClassOfStatuses(s), class.MatchString(s))
		}
		if isPlainKey(s) != key.MatchString(s) {
			t.Errorf("%q: got plain key %t, want %t", s, isPlainKey(s), key.MatchString(s))
		}
	})
}
