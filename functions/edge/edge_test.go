package edge_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The viewer function overwrites the address that a client sent, and changes nothing else.
func TestViewer(t *testing.T) {
	storetest.Program(t, "node")
	const event = `{"version":"1.0","viewer":{"ip":"2001:db8::1"},"request":{"method":"POST","uri":"/a%2Fb","querystring":{"q":{"value":"1"}},` +
		`"headers":{"weir-viewer-address":{"value":"192.0.2.1","multiValue":[{"value":"192.0.2.1"},{"value":"192.0.2.2"}]},"x":{"value":"y"}},"cookies":{}}}`
	c := exec.CommandContext(t.Context(), "node", "-e", edge.Viewer()+"\nconsole.log(JSON.stringify(handler("+event+")));")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got, want any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	field := strings.ToLower(contract.ViewerAddressField)
	wanted := `{"method":"POST","uri":"/a%2Fb","querystring":{"q":{"value":"1"}},"headers":{"` + field + `":{"value":"2001:db8::1"},"x":{"value":"y"}},"cookies":{}}`
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	if a, b := text(t, got), text(t, want); a != b {
		t.Errorf("got %s, want %s", a, b)
	}
	if n := len(edge.Viewer()); n > edge.MaxViewer {
		t.Errorf("got %d bytes, want at most %d", n, edge.MaxViewer)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
