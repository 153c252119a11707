package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// Every document in RECIPES.md is valid.
func TestRecipes(t *testing.T) {
	text, err := os.ReadFile("RECIPES.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)## ([^\n]*)\n[^#]*?```json\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) < 7 {
		t.Fatalf("documents: got %d, want at least 7", len(found))
	}
	for _, recipe := range found {
		if _, err := rules.Parse([]byte(recipe[2]), rules.Options{Items: dynamostore.Items{}, LeaseAbove: rules.LeaseAboveDynamoDB}); err != nil {
			t.Errorf("%s: got error %v, want none", recipe[1], err)
		}
	}
}

// Every document in examples is valid.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("examples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d examples, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rules.Parse(text, rules.Options{Items: dynamostore.Items{}, LeaseAbove: rules.LeaseAboveDynamoDB}); err != nil {
			t.Errorf("%s: got error %v, want none", file, err)
		}
	}
}
