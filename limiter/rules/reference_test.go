package rules_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// RULES.md documents exactly the fields of the schema, and its example is valid.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	if err := json.Unmarshal(rules.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for heading, want := range map[string]map[string]any{
		"The document": schema.Properties, "A rule": schema.Defs["rule"].Properties, "A limit": schema.Defs["limit"].Properties,
		"Overrides": schema.Defs["own"].Properties,
	} {
		_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n##")
		var got []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(section, -1) {
			for _, name := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
				got = append(got, name[1])
			}
		}
		for name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("%s: got no field %s, want it as in the schema", heading, name)
			}
		}
		for _, name := range got {
			if want[name] == nil {
				t.Errorf("%s: got field %s, want only fields of the schema", heading, name)
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: got no fields, want at least one", heading)
		}
	}
	for _, example := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		if _, err := rules.Parse(example[1], rules.Options{}); err != nil {
			t.Errorf("example: got error %v, want none:\n%s", err, example[1])
		}
	}
}
