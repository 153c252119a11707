package template_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway/template"
)

// filled joins as many pieces with commas as fit into a template of the maximum size.
func filled(piece func(i int) string) string {
	var b strings.Builder
	for i := 0; b.Len() < 900_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(piece(i))
	}
	return b.String()
}

// The parser handles a hostile template in less than 30 times the time of a valid template of the
// same size. The factor is large, because other programs can slow the test down.
func TestParse_hostile(t *testing.T) {
	table := func(i int) string {
		return fmt.Sprintf(`"T%d":{"Type":"AWS::DynamoDB::Table","Properties":{"TableName":"t%d"}}`, i, i)
	}
	function := func(variables string) string {
		return `{"Parameters":{"P":{"Type":"String","Default":"` + strings.Repeat("p", 1000) + `"}},"Resources":{"F":{"Type":"AWS::Lambda::Function","Properties":{"Role":"arn:aws:iam::123456789012:role/f","Code":{"ZipFile":"x"},"Runtime":"provided.al2023","Handler":"bootstrap","Environment":{"Variables":{` + variables + `}}}}}}`
	}
	repeat := strings.Repeat
	parse := func(document string) (time.Duration, error) {
		shortest, data := time.Hour, []byte(document)
		var err error
		for range 2 {
			begun := time.Now()
			_, err = template.Parse(data)
			shortest = min(shortest, time.Since(begun))
		}
		return shortest, err
	}
	baseline, err := parse(`{"Resources":{` + filled(table) + `}}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ document, problem string }{
		"10 MB":                    {`{"Resources":{}` + repeat(" ", 10<<20) + `}`, "want at most 1048576"},
		"deep lists":               {`{"Resources":` + repeat("[", 500_000), "nested more than 64 deep"},
		"deep functions":           {function(`"V":` + repeat(`{"Fn::Join":["",[`, 60_000)), "nested more than 64 deep"},
		"one resource, many times": {`{"Resources":{` + filled(func(int) string { return table(0) }) + `}}`, "given twice"},
		"resources of no type":     {`{"Resources":{` + filled(func(i int) string { return fmt.Sprintf(`"R%d":1`, i) }) + `}}`, "R0"},
		"text that grows":          {function(filled(func(i int) string { return fmt.Sprintf(`"V%d":{"Fn::Sub":"%s"}`, i, repeat("${P}", 100)) })), "result is too large"},
		"text that is joined":      {function(`"V":{"Fn::Join":["` + repeat("x", 1000) + `",[` + filled(func(int) string { return `{"Ref":"P"}` }) + `]]}`), "result is too large"},
		"text that is split": {function(filled(func(i int) string {
			return fmt.Sprintf(`"V%d":{"Fn::Select":["0",{"Fn::Split":["p",{"Ref":"P"}]}]}`, i)
		})), "result is too large"},
		"mistakes everywhere": {`{"Resources":{` + filled(func(i int) string {
			return fmt.Sprintf(`"R%d":{"Type":"AWS::ApiGateway::Method","Properties":{"X":1}}`, i)
		}) + `}}`, "R0"},
		"resources below resources": {`{"Resources":{` + filled(func(i int) string {
			return fmt.Sprintf(`"R%d":{"Type":"AWS::ApiGateway::Resource","Properties":{"RestApiId":"a","ParentId":{"Ref":"R%d"},"PathPart":"p"}}`, i, i+1)
		}) + `}}`, "R0"},
		"unknown sections": {`{` + filled(func(i int) string { return fmt.Sprintf(`"S%d":1`, i) }) + `}`, "not supported"},
		"numbers":          {function(`"V":` + repeat("9", 900_000)), ""},
		"NUL":              {"{\x00}", "template: "},
	} {
		took, err := parse(c.document)
		if c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
			t.Errorf("%s: got error %.300v, want %q", name, err, c.problem)
		}
		if took > 30*baseline {
			t.Errorf("%s: got %.1f times the duration of a valid template, want less than 30", name, float64(took)/float64(baseline))
		}
		if err != nil && len(err.Error()) > 100<<10 {
			t.Errorf("%s: got an error of %d bytes, want at most 102400", name, len(err.Error()))
		}
	}
}
