package rules

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzSegments compares how names are read from segments with regular expressions.
func FuzzSegments(f *testing.F) {
	for _, s := range []string{"", "search", "Search v2", ".a", "a.-b", "-", "{id}", "{}", "{a-b}", "{Id_9}", "{id", "id}", "{{a}", "{a}}",
		"é", "\xff", "KELVIN\u212a", "{é}", "a.b..c.", strings.Repeat("a", 33)} {
		f.Add(s)
	}
	parameter, unnamed := regexp.MustCompile(`^\{[A-Za-z0-9_]+\}$`), regexp.MustCompile(`[^a-z0-9_-]+`)
	f.Fuzz(func(t *testing.T, s string) {
		if isParameter(s) != parameter.MatchString(s) {
			t.Errorf("%q: got parameter %t, want %t", s, isParameter(s), parameter.MatchString(s))
		}
		want := strings.Trim(unnamed.ReplaceAllString(strings.ToLower(s), "-"), "-")
		want = want[:min(32, len(want))]
		if nameOf(s) != want {
			t.Errorf("%q: got name %q, want %q", s, nameOf(s), want)
		}
	})
}

// A set has all indexes, also those above 63.
func TestReadingSet(t *testing.T) {
	for _, i := range []int{3, 63, 64, 161} {
		var all, one readingSet
		all.add(i)
		empty := one.includes(all)
		one.add(70)
		one.add(i)
		if empty || !one.includes(all) || all.includes(one) {
			t.Errorf("%d: got %+v and %+v, want only the second set to include the first", i, all, one)
		}
	}
}
