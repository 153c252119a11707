package edge_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limits/weir/functions/edge"
)

// The viewer function fits CloudFront's limit, and imports only modules of CloudFront Functions. local/viewer tests what it
// does.
func TestViewer(t *testing.T) {
	source := edge.Viewer()
	if n := len(source); n > edge.MaxViewer {
		t.Errorf("got %d bytes, want at most %d", n, edge.MaxViewer)
	}
	if field := "'" + strings.ToLower(edge.AnsweredField) + "': 'refused'"; !strings.Contains(source, field) {
		t.Errorf("got no field %s, want it", field)
	}
	modules := regexp.MustCompile(`.*\b(import|require)\b.*`).FindAllString(source, -1)
	if want := []string{"import cf from 'cloudfront';", "import crypto from 'crypto';"}; !slices.Equal(modules, want) {
		t.Errorf("got the imports %q, want %q", modules, want)
	}
}
