package stack_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/infra/standalone"
)

var update = flag.Bool("update", false, "write the golden templates")

// golden are the settings of the templates in infra/golden. `make run` loads these templates, and
// their diffs show the effect of a change.
var golden = map[string]func(*stack.Settings){
	"dynamodb": variants["dynamodb"],
}

// variants are settings of which tests examine the templates.
var variants = map[string]func(*stack.Settings){
	"dynamodb":    func(*stack.Settings) {},
	"elasticache": elasticache,
	"everything":  everything,
	"kafka":       toKafka,
	"regions":     inRegions("us-east-1", "eu-central-1", "ap-southeast-1"),
	"regions-two": inRegions("eu-central-1", "us-east-1", "ap-southeast-1"),
}

func TestGolden(t *testing.T) {
	for name, change := range golden {
		t.Run(name, func(t *testing.T) { checkGolden(t, goldenPath(name), synthesize(t, change).template) })
	}
	for path, store := range released {
		if *update { // otherwise, TestTemplate of package standalone compares it
			got, err := standalone.Template(store, "../standalone/rules.json")
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, path, got)
		}
	}
}

// checkGolden compares a template with the file in infra/golden, or writes the file with -update.
func checkGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if old, err := os.ReadFile(path); *update && err == nil {
		for _, problem := range checkReplacements(createOnlyProperties(t), parse(t, old).Resources, parse(t, got).Resources) {
			t.Errorf("%s is not written: %s (if no such stack is deployed anywhere, delete the file first)", path, problem)
		}
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the synthesized stack from line %d; if the change is intended, run make golden", path,
			firstDifference(got, want))
	}
}

// released are the templates of a release.
var released = map[string]ratelimit.Store{
	"../standalone/weir.template.json": ratelimit.DynamoDB, "../standalone/weir-elasticache.template.json": ratelimit.ElastiCache,
}

func goldenPath(name string) string { return filepath.Join("..", "golden", name+".template.json") }

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return 1 + bytes.Count(a[:i], []byte("\n"))
		}
	}
	return 1 + bytes.Count(a[:min(len(a), len(b))], []byte("\n"))
}
