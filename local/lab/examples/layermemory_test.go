package examples_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/storetest"
)

// The extension needs at most 40 MB, as LAYER.md says, for events of 6 MB and answers of 6 MB with Node.js.
func TestExamples_memory(t *testing.T) {
	l := newLayer(t)
	p := l.pool(t, function{l.node, "testdata", "memory.handler"}, daily)
	megabytes := func(field string) int {
		status := storetest.Must(os.ReadFile("/proc/" + strconv.Itoa(p.pids["extension"]) + "/status"))
		found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
		return storetest.Must(strconv.Atoi(string(found[1]))) >> 10
	}
	begun := megabytes("VmRSS")
	for _, answered := range []int{0, 5_900_000} {
		for range 8 {
			body := storetest.Must(json.Marshal(map[string]any{"answer": answered, "filler": strings.Repeat("x", 5_900_000)}))
			if _, err := p.invoke(t.Context(), request(t, "http api", "POST", "/orders", "203.0.113.7", string(body))); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("answers of %d bytes: %d MB at first, %d MB after eight events, %d MB at most", answered, begun, megabytes("VmRSS"),
			megabytes("VmHWM"))
	}
	if most := megabytes("VmHWM"); most > 40 {
		t.Errorf("memory: got %d MB, want at most 40 MB", most)
	}
}
