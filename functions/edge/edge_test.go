package edge_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter/storetest"
)

type request struct {
	ip, path, key string
}

// run runs the function in njs, with a store of these entries, and returns the answer to each request, and the time of the
// processor that all needed.
func run(t *testing.T, entries map[string]string, requests ...request) (answers []string, cpu time.Duration) {
	t.Helper()
	program, folder := storetest.Server(t, "njs", "WEIR_NJS"), t.TempDir() // the engine of CloudFront
	store, _ := json.Marshal(entries)
	stub := `const entries = ` + string(store) + `;
export default {kvs: function () { return {get: function (key) {
  return key in entries ? Promise.resolve(entries[key]) : Promise.reject(new Error('KeyNotFound'));
}}; }};`
	var script strings.Builder
	script.WriteString(edge.Viewer() + "\nasync function all() {\nlet r;\n")
	for _, q := range requests {
		headers := map[string]any{"cloudfront-viewer-address": map[string]string{"value": "198.51.100.9:1"}}
		if q.key != "" {
			headers["x-api-key"] = map[string]string{"value": q.key}
		}
		event, _ := json.Marshal(map[string]any{"viewer": map[string]string{"ip": q.ip}, "request": map[string]any{"method": "GET", "uri": q.path,
			"headers": headers}})
		script.WriteString("r = await handler(" + string(event) + ");\nconsole.log(r.statusCode || " +
			"r.headers['cloudfront-viewer-address'].value);\n")
	}
	script.WriteString("}\nall();\n")
	for name, content := range map[string]string{"cloudfront": stub, "main.js": script.String()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), program, "-p", folder, filepath.Join(folder, "main.js"))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("njs: %v\n%s", err, out)
	}
	return strings.Fields(string(out)), c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func keyOf(subject string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(subject))) }

// The function passes a request on with the address of the viewer, over what the client sent, and refuses the keys of its
// store until their ends.
func TestViewer(t *testing.T) {
	later, earlier := fmt.Sprint(time.Now().Unix()+60), fmt.Sprint(time.Now().Unix()-60)
	entries := map[string]string{
		keyOf("ip:203.0.113.7"): later, keyOf("ip:203.0.113.8"): earlier, keyOf("ip:203.0.113.9"): "soon",
		keyOf("ip:2001:db8:0:1::/64"): later, keyOf("ip:0:0:1:2::/64"): later, keyOf("ip:2001:db9::/64"): later, keyOf("apikey:weir_abc"): later,
		keyOf("apikey:" + strings.Repeat("k", 257)): later,
	}
	for _, c := range []struct {
		request
		want string
	}{
		{request{"192.0.2.1", "/", ""}, "192.0.2.1:0"},
		{request{"2001:db8::7", "/", ""}, "2001:db8::7:0"},
		{request{"203.0.113.7", "/", ""}, "403"},
		{request{"203.0.113.8", "/", ""}, "203.0.113.8:0"},
		{request{"203.0.113.9", "/", ""}, "203.0.113.9:0"},
		{request{"2001:0db8:0:0001::9", "/", ""}, "403"},
		{request{"2001:db8:0:1:2:3:4:5", "/", ""}, "403"},
		{request{"2001:db8:0:2::9", "/", ""}, "2001:db8:0:2::9:0"},
		{request{"::1:2:3:4:5:6", "/", ""}, "403"},
		{request{"2001:db9::7", "/", ""}, "403"},
		{request{"2001:db9:0:0:1:2:3:4", "/", ""}, "403"},
		{request{"192.0.2.1", "/", "weir_abc"}, "403"},
		{request{"192.0.2.1", "/", "weir_abd"}, "192.0.2.1:0"},
		{request{"192.0.2.1", "/", strings.Repeat("k", 257)}, "192.0.2.1:0"},
	} {
		if got, _ := run(t, entries, c.request); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v: got %q, want %s", c.request, got, c.want)
		}
	}
}

// CloudFront ends a function that runs too long. A long path, and one that would be slow for a pattern, cost what a short
// path costs.
func TestViewer_bounded(t *testing.T) {
	took := func(path string) time.Duration {
		var all []request
		for range 200 {
			all = append(all, request{"2001:db8::7", path, "weir_abc"})
		}
		got, cpu := run(t, nil, all...)
		if len(got) != len(all) {
			t.Fatalf("got %d answers, want %d", len(got), len(all))
		}
		return cpu
	}
	short := took("/")
	for _, path := range []string{"/" + strings.Repeat("a", 8191), strings.Repeat("/%2e%2e", 1170), strings.Repeat("/", 8192)} {
		if long := took(path); long > 5*short+time.Second {
			t.Errorf("path of %d characters: took %s, want about %s", len(path), long, short)
		}
	}
}

// The function fits the limit of CloudFront, 10 KB, and the bound of lines.
func TestViewer_size(t *testing.T) {
	if n, lines := len(edge.Viewer()), strings.Count(edge.Viewer(), "\n"); n > 10_240 || lines > 80 {
		t.Errorf("got %d bytes in %d lines, want at most 10240 in 80", n, lines)
	}
}
