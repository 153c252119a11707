package rules_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
)

// Every document in RECIPES.md is valid.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("RECIPES.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)## ([^\n]*)\n[^#]*?```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) < 8 {
		t.Fatalf("documents: got %d, want at least 8", len(found))
	}
	for _, recipe := range found {
		if _, err := rules.Parse([]byte(recipe[2]), rules.Options{LeaseAbove: rules.LeaseAboveDynamoDB}); err != nil {
			t.Errorf("%s: got error %v, want none", recipe[1], err)
		}
	}
}
