package rules_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
)

var update = flag.Bool("update", false, "rewrite testdata/placement.golden")

// If WEIR_SOAK is set, the property tests check many more documents.
func TestMain(m *testing.M) {
	if os.Getenv(parseEnv) != "" {
		parseInput()
		return
	}
	flag.Parse()
	if os.Getenv("WEIR_SOAK") != "" {
		if err := flag.Set("rapid.checks", "10000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The golden file has the item of each limit for several documents. If this test fails, an upgrade
// restarts counts. Keep the items unchanged if possible. If not, describe the change in the CHANGELOG
// and update the file with go test ./limiter/rules -run TestPlacement -update.
func TestPlacement(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.json")
	if err != nil {
		t.Fatal(err)
	}
	documents := map[string]string{
		"seven endpoints": document(endpoints(7)...), "eight endpoints": document(endpoints(8)...),
		"ten buckets": document(rule("/a", "", `"*":`+list("l", 10, `,"algorithm":"token_bucket"`))),
		"logs":        document(rule("/a", "", `"*":`+sizedLog("l", 160, "1h", "")), rule("/b", "", `"*":`+sizedLog("l", 160, "1h", ""))),
		"more logs":   document(rule("/a", "", `"*":`+sizedLog("l", 160, "1h", "")), rule("/b", "", `"*":`+sizedLog("l", 170, "1h", ""))),
	}
	order := []string{"seven endpoints", "eight endpoints", "ten buckets", "logs", "more logs"}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents[file] = string(content)
		order = append(order, file)
	}
	var b strings.Builder
	for _, name := range order {
		fmt.Fprintf(&b, "%s\n%s", name, placement(parse(t, documents[name])))
	}
	const file = "testdata/placement.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || b.String() != string(want) {
		t.Errorf("an upgrade would restart counts (%v): want the golden file, got\n%s", err, &b)
	}
}

// placement lists the items that count the requests of a document's endpoints, and the limits in each
// item.
func placement(r *rules.Rules) string {
	seen, text := map[string]bool{}, ""
	for i := range r.Len() {
		endpoint, method := r.Endpoint(i)
		if method == "" {
			method = http.MethodGet
		}
		path := rules.EncodedPath(strings.NewReplacer("{", "", "}", "", "*", "x").Replace("/" + strings.TrimPrefix(endpoint, "/")))
		for _, tier := range append(r.Tiers(), "other") {
			c := caller.Caller{User: "u", APIKey: "k", IP: address, Tier: tier, Claims: map[string]string{"org": "o"}}
			for _, charge := range r.Charges(nil, method, path, c) {
				line := fmt.Sprintf("  %s %s %s shadow %t shards %d\n", charge.Subject, charge.Limit.ID, charge.Limit.Name, charge.Limit.Shadow, charge.Limit.Spread.Shards)
				if !seen[line] {
					seen[line] = true
					text += line
				}
			}
		}
	}
	return text
}
