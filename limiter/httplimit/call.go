package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules"
)

// selectCall selects the charges of a request whose limits depend on the method and the name in its body, whatever its HTTP method:
// back ends can run a call of any. selected is the selection by the fields that the client wrote. It stays, with a Mistake, if the
// fields differ from the body, or if back ends may read the body in another way. The fields are set to the body, so a client without
// them gets the same limits. Without a body, as in a preflight of a browser, only the fields count.
func (g *Gate) selectCall(ctx context.Context, now time.Time, r *Request, asked rules.Request, selected rules.Selection) rules.Selection {
	if selected.Mistake != nil && selected.Mistake.Code == rules.MalformedField {
		return selected
	}
	body, whole := g.readBody(r, asked.Caller.IP)
	switch {
	case !whole:
		selected.Mistake = &rules.Mistake{Code: "unreadable_call",
			Message: "The body is longer than 1 MB, cannot be read, or arrives beside too many others."}
		return selected
	case len(body) == 0 && r.Method != http.MethodPost:
		if len(r.Header[rules.CallMethodField]) == 0 { // it calls nothing
			selected.Mistake = nil
		}
		return selected
	}
	call, err := meter.ReadCall(r.Header, body)
	if err != nil {
		selected.Mistake = &rules.Mistake{Code: "unreadable_call", Message: "The body is no MCP request: " + err.Error() + "."}
		return selected
	}
	asked.Header = r.Header.Clone()
	for name, value := range map[string]string{rules.CallMethodField: call.Method, rules.CallNameField: call.Name} {
		if sent := r.Header[name]; len(sent) > 1 || len(sent) == 1 && rules.DecodeField(sent[0]) != value {
			selected.Mistake = &rules.Mistake{Code: "call_mismatch", Message: "The field " + name + " differs from the body."}
			return selected
		}
		delete(asked.Header, name)
		if value != "" || name == rules.CallMethodField { // some methods have no name
			asked.Header[name] = []string{rules.EncodeField(value)}
		}
	}
	return g.o.Select(ctx, now, asked)
}
