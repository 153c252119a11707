package edge_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/edge"
)

// The viewer function fits CloudFront's limit. local/viewer tests what it does.
func TestViewer(t *testing.T) {
	if n := len(edge.Viewer(1<<53 - 1)); n > edge.MaxViewer {
		t.Errorf("got %d bytes, want at most %d", n, edge.MaxViewer)
	}
	if field := "'" + strings.ToLower(edge.AnsweredField) + "': 'refused'"; !strings.Contains(edge.Viewer(1<<53-1), field) {
		t.Errorf("got no field %s, want it", field)
	}
	for _, match := range regexp.MustCompile(`(?m)^import .* from '(\w+)';$`).FindAllStringSubmatch(edge.Viewer(1<<53-1), -1) {
		if match[1] != "cloudfront" && match[1] != "crypto" {
			t.Errorf("got an import of %s, want only modules of CloudFront Functions", match[1])
		}
	}
}
