package operator_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/origin"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/operator"
)

// The explanation says which address was used, and why. A direct request that is refused charges no limit.
func TestOperator_Explain_viewers(t *testing.T) {
	secrets := origin.Derive([]byte("the key of this run"))
	secret := secrets.Sent(noon)
	for _, c := range []struct {
		name    string
		refuse  bool
		headers map[string]string
		ip      string
		from    string
		status  int
	}{
		{"through the distribution", true, map[string]string{contract.OriginSecretField: secret, contract.ViewerAddressField: "203.0.113.7"}, "203.0.113.7/32", "weir", 0},
		{"a malformed field", true, map[string]string{contract.OriginSecretField: secret, contract.ViewerAddressField: "203.0.113.7:1"}, "127.0.0.1/32", "source (Weir-Viewer-Address: no address)", 0},
		{"direct", false, map[string]string{contract.ViewerAddressField: "203.0.113.7"}, "127.0.0.1/32", "source (Weir-Origin-Secret: missing)", 0},
		{"direct, refused", true, map[string]string{contract.OriginSecretField: "x"}, "127.0.0.1/32", "source (Weir-Origin-Secret: wrong)", http.StatusForbidden},
		{"no field in the question", true, nil, "127.0.0.1/32", "the question, not from Weir-Origin-Secret and Weir-Viewer-Address", 0},
	} {
		d := newDesk(t, "memory")
		d.Viewers = origin.New(origin.Options{
			Believed: storetest.Must(origin.ParseBelieved("weir")), Refuse: c.refuse, Logger: slog.New(slog.DiscardHandler),
			Load: func(context.Context) (origin.Secrets, error) { return secrets, nil },
		})
		e, err := d.Explain(t.Context(), operator.Question{Method: http.MethodGet, Path: "/api/v1/search", Headers: c.headers})
		if err != nil || e.Caller.IP != c.ip || e.Caller.IPFrom != c.from || e.Decision.Status != c.status || e.Decision.Allowed != (c.status == 0) || (len(e.Limits) == 0) != (c.status != 0) {
			t.Errorf("%s: got address %s from %s, decision %+v, %d limits, error %v; want %s from %s, status %d", c.name, e.Caller.IP, e.Caller.IPFrom, e.Decision, len(e.Limits), err, c.ip, c.from, c.status)
		}
	}
}
