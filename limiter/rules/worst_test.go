package rules_test

import (
	"fmt"
	"strings"
	"testing"
)

// fill joins pieces with commas. count is their number. It uses fewer pieces if they would exceed the maximum
// size of a document.
func fill(count int, piece func(i int) string) string {
	var b strings.Builder
	for i := range count {
		next := piece(i)
		if b.Len()+len(next) > 1_000_000 {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(next)
	}
	return b.String()
}

const limit = `{"requests":1,"window":"1s"}`

// tiers returns n limits for n different tiers. tier is the number of the first tier.
func tiers(tier, n int) string {
	return fill(n, func(i int) string { return fmt.Sprintf(`"t%d":%s`, tier+i, limit) })
}

// word returns a long name without digits, which is similar to that of other numbers.
func word(i int) string {
	letters := []byte(strings.Repeat("z", 60))
	for at := 0; at < 60; at, i = at+19, i/10 { // the first letter and the last differ, and two between them
		letters[at] = byte('a' + i%10)
	}
	return string(letters)
}

// worst lists documents that need as much work as possible. problem is the expected error. It is ""
// if the document is accepted.
func worst() []attack {
	return []attack{
		{"many tiers", document(fill(1000, func(i int) string {
			return rule(fmt.Sprintf("/a%d/*", i), "", tiers(i*5%1000, 5))
		})), ""},
		{"many tiers of similar lengths", document(fill(1000, func(i int) string {
			return rule(fmt.Sprintf("/a%d", i), "", `"`+word(i)+`":`+limit)
		})), ""},
		{"many declared tiers", strings.Replace(document(fill(1000, func(i int) string {
			return rule(fmt.Sprintf("/a%d", i), "", `"`+word(i)+`":`+limit)
		})), "{", `{"default_tier":"`+word(0)+`","tiers":[`+fill(1000, func(i int) string { return `"` + word(i) + `"` })+`],`, 1), ""},
		{"10,000 declared tiers", strings.Replace(document(rule("/a", "", tiers(0, 5))), "{", `{"tiers":[`+
			fill(10_000, func(i int) string { return `"` + word(i) + `"` })+`],`, 1), "tiers: got 10000 tiers, want a list of 1 to 1000 tiers"},
		{"many tiers that are not declared", strings.Replace(document(rule("/a", "", tiers(0, 20_000))), "{", `{"tiers":[`+
			fill(999, func(i int) string { return `"` + word(i) + `"` })+`,"free"],`, 1), "more than 100 problems"},
		{"many tiers, and limits of other tiers", document(rule("*", "", `"t0":`+list("l", 7, "")), fill(999, func(i int) string {
			return rule(fmt.Sprintf("/a%d", i), "", tiers(i+1, 1))
		})), ""},
		{"all overlap", document(fill(1000, func(i int) string {
			return rule(strings.Repeat("/{x}", 20)+"/*", []string{"GET", "POST", "PUT", "PATCH", "DELETE"}[i%5], tiers(i, 1))
		})), ""},
		{"many limits at once", document(rule("*", "", `"*":[`+fill(5_000, func(i int) string {
			return fmt.Sprintf(`{"name":"l%d","requests":1,"window":"1s"}`, i)
		})+`]`)), "does not fit one item"},
		{"many classes", document(rule("*", "", `"*":[`+fill(5_000, func(i int) string {
			return fmt.Sprintf(`{"name":"l","requests":1,"window":"1s","per":["claim:c%d"]}`, i)
		})+`]`)), ""},
		{"too many limits in one list", document(rule("*", "", `"*":[`+fill(20_000, func(i int) string {
			return fmt.Sprintf(`{"name":"l%d","requests":1,"window":"1s"}`, i)
		})+`]`)), "got 20000 limits, want at most 5000 in a document"},
		{"many overrides", `{"rules":[` + rule("*", "", `"*":`+limit) + `],"overrides":[` + fill(10_000, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","limits":{"all":{"requests":%d,"window":"1s"}}}`, i, i+1)
		}) + `]}`, ""},
		{"overrides of many limits", `{"rules":[` + fill(10, func(i int) string {
			return rule(fmt.Sprintf("/a%d/all", i), "", tiers(0, 500))
		}) + `],"overrides":[` + fill(8_000, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","limits":{"all":{"requests":%d,"window":"1s"}}}`, i, i+1)
		}) + `]}`, "got too many overrides, want overrides for at most 50000 limits in total"},
		{"callers with the same numbers", `{"rules":[` + fill(10, func(i int) string {
			return rule(fmt.Sprintf("/a%d/all", i), "", tiers(0, 500))
		}) + `],"overrides":[` + fill(8_000, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","limits":{"all":{"requests":5,"window":"1s"}}}`, i)
		}) + `]}`, ""},
		{"unknown overrides of many names", `{"rules":[` + fill(1000, func(i int) string {
			return rule(fmt.Sprintf("/a%d", i), "", `"*":[`+fill(4, func(j int) string {
				return fmt.Sprintf(`{"name":"%s%04d","requests":1,"window":"1s"}`, strings.Repeat("ab", 14), 4*i+j)
			})+`]`)
		}) + `],"overrides":[` + fill(4000, func(i int) string {
			return fmt.Sprintf(`{"user":"u","limits":{"%s%04d":{"requests":1}}}`, strings.Repeat("ba", 14), i)
		}) + `]}`, "more than 100 problems"},
		{"one unknown override, many times", `{"rules":[` + fill(10, func(i int) string {
			return rule(fmt.Sprintf("/a%d/all", i), "", tiers(0, 500))
		}) + `],"overrides":[` + fill(9000, func(i int) string {
			return fmt.Sprintf(`{"claim:c":"u%d","limits":{"all":{"requests":%d}}}`, i, i+1)
		}) + `]}`, "no limit"},
		{"an invalid override, many times", `{"rules":[` + fill(9, func(i int) string {
			return rule(fmt.Sprintf("/a%d/all", i), "", tiers(0, 500))
		}) + `,{"endpoint":"/b/all","cost":6,"limits":{"z":{"requests":10,"window":"1s"}}}],"overrides":[` + fill(9000, func(i int) string {
			return fmt.Sprintf(`{"user":"u%d","limits":{"all":{"requests":5}}}`, i)
		}) + `]}`, "more than 100 problems"},
		{"a long key", `{"` + strings.Repeat("a", 500_000) + `":{` + fill(40_000, func(i int) string { return fmt.Sprintf(`"b%d":1`, i) }) + `}}`,
			"rules: required"},
		{"a long list", `{"rules":[` + strings.Repeat("1,", 490_000) + `1]}`, "more than 200000 values"},
	}
}

// A note lists the tiers that have no limit in a rule. If there are many, it lists only the first ones.
func TestRules_Notes_tiers(t *testing.T) {
	for most, want := range map[int]string{
		1: "", 3: "no limit for callers of tier t1 or t2", 11: "t4, t5, t6, t7, t8 or t9", 12: "t6, t7 or t8, or 1 more",
	} {
		text := document(rule("/a", "", tiers(0, most)), rule("/b", "", `"t0":`+limit+`,"global":{"requests":9,"window":"1s"}`),
			rule("/c", "", `"*":`+limit),
			rule("/d", "", `"global":`+limit))
		r := parse(t, strings.Replace(text, "{", `{"default_tier":"t0",`, 1))
		notes := fmt.Sprint(r.Notes())
		if want == "" && len(r.Notes()) > 0 || !strings.Contains(notes, want) || len(r.Notes()) > 1 {
			t.Errorf("%d tiers: notes: got %s, want %q", most, notes, want)
		}
	}
}
