package operator_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
)

// The explanation says which address was used, and why.
func TestOperator_Explain_viewers(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct {
		name     string
		headers  http.Header
		ip, from string
	}{
		{"through the distribution", http.Header{contract.OriginSecretField: {secret}, contract.CloudFrontAddressField: {"203.0.113.7:1"}},
			"203.0.113.7/32", "cloudfront"},
		{"direct", http.Header{contract.CloudFrontAddressField: {"203.0.113.7:1"}}, "127.0.0.1/32", "host (Weir-Origin-Secret: missing)"},
		{"no field in the question", nil, "127.0.0.1/32", "the question, not from Cloudfront-Viewer-Address and Weir-Origin-Secret"},
	} {
		d := newDesk(t, "memory")
		d.Viewers = viewer.New(storetest.Must(viewer.Parse("cloudfront")), secret, "", slog.New(slog.DiscardHandler))
		e, err := d.Explain(t.Context(), operator.Question{Method: http.MethodGet, Path: "/api/v1/search", Headers: c.headers})
		if err != nil || e.Caller.IP != c.ip || e.Caller.IPFrom != c.from {
			t.Errorf("%s: got address %s from %s, error %v; want %s from %s", c.name, e.Caller.IP, e.Caller.IPFrom, err, c.ip, c.from)
		}
	}
}
