package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// The message about a mistake offers only values that are valid at its place.
func TestParse_messages(t *testing.T) {
	of := func(endpoint, fields string) string {
		return `{"rules":[{"endpoint":"` + endpoint + `","limits":{"*":{"name":"a","requests":9,` + fields + `}}}]}`
	}
	for _, c := range []struct{ document, want string }{
		{`{"rules":[],"exempt":[{"endpoint":"health"}]}`, `line 1: exempt[0].endpoint: got "health", want a path that begins with /`},
		{`{"rules":[],"usage":{"endpoint":"health","limit":{"requests":1,"window":"1m"}}}`,
			`line 1: usage.endpoint: got "health", want a path that begins with /`},
		{of("health", `"window":"1m"`), `line 1: rules[0].endpoint: got "health", want "*" or a path that begins with /`},
		{of("*", `"window":"1m","period":"day"`),
			`line 1: rules[0].limits.*.period: got day, want none: a limit has either a window or a period`},
		{of("*", `"period":"week","anchor":0`), `line 1: rules[0].limits.*.anchor: got 0, want the first day of a week, "monday" to "sunday"`},
		{of("*", `"period":"month","anchor":0`), `line 1: rules[0].limits.*.anchor: got 0, want the first day of a month, 1 to 31`},
		{of("*", `"period":"month","anchor":"1"`), `line 1: rules[0].limits.*.anchor: got "1", want a weekday from ` +
			`monday to sunday, or a day of the month from 1 to 31 without quotes`},
		{of("*", `"period":"day","anchor":0`), `line 1: rules[0].limits.*.anchor: got 0, want none: only a week and a month have one, not a day`},
		{of("*", `"window":"1m","count":"failures","failure_status":[]`),
			`line 1: rules[0].limits.*.failure_status: got an empty list, want a list of 1 to 100 statuses, such as [401, "5xx"]`},
		{of("*", `"window":"1m","count":"failures","failure_status":["401"]`),
			`line 1: rules[0].limits.*.failure_status[0]: got "401", want a status from 100 to 599 without quotes, or a class such as "4xx"`},
		{of("*", `"window":"1m","mode":"shadow"`), `line 1: rules[0].limits.*.mode: got "shadow", want enforce or mark; "shadow" is a mode of ` +
			`a rule or of the document`},
		{`{"mode":"mark","rules":[]}`, `line 1: mode: got "mark", want enforce or shadow; "mark" is a mode of a limit`},
		{`{"rules":[{"endpoint":"*","mode":"mark","limits":{"*":{"requests":9,"window":"1m"}}}]}`,
			`line 1: rules[0].mode: got "mark", want enforce or shadow; "mark" is a mode of a limit`},
		{of("/a/{id}", `"window":"1m","per":["ip","path:ID"]`), `line 1: rules[0].limits.*.per: got path:ID, want a parameter that occurs ` +
			`once in the endpoint /a/{id} (it occurs 0 times) (did you mean "path:id"?)`},
		{strings.Replace(of("/a/{id}", `"window":"1m","count":"cost","reserve":1,"from":{"by":"path:id","prices":{"*":{"a":1},"Gpt":{"a":2}}}`),
			"{", `{"ignore_case":true,`, 1), `line 1: rules[0].limits.*.from.prices.Gpt: got capital letters, want "gpt": with ` +
			`ignore_case, a value ` +
			`of the path has none`},
		{of("/a/{id}", `"window":"1m","per":["ip","path:{id}"]`),
			`line 1: rules[0].limits.*.per[1]: got "path:{id}", want path:id without braces`},
	} {
		_, err := rules.Parse([]byte(c.document), rules.Options{})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.document, err, c.want)
		}
	}
}

// The problems of a document are in the order of their lines, also those of a missing member, which has the line of its
// object.
func TestParse_lineOrder(t *testing.T) {
	_, err := rules.Parse([]byte("{\"rules\":[{\"endpoint\":\"/a\",\"limits\":{\n\"free\":{\n\"name\":\"X\",\n\"window\":\"365d\"},"+
		"\n\"paid\":{\"requests\":0}}}]}"), rules.Options{})
	problems, _ := errors.AsType[rules.Problems](err)
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if !slices.Equal(lines, []int{2, 3, 4, 5, 5}) {
		t.Errorf("got the lines %v of\n%v\nwant 2, 3, 4, 5, 5", lines, err)
	}
}
