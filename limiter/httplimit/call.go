package httplimit

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/meter"
	"github.com/weir-limits/weir/limiter/rules"
)

// selectCall selects the charges of a request whose limits depend on the method and the name in its body, whatever its HTTP method:
// back ends can run a call of any. selected is the selection by the fields that the client wrote. It stays if the fields differ from the
// body, or if back ends may read the body in another way, with a Mistake unless only rules in shadow depend on the body. The fields are
// set to the body, so a client without them gets the same limits. Without a body, as in a preflight of a browser, only the fields count.
func (g *Gate) selectCall(ctx context.Context, now time.Time, r *Request, asked rules.Request, selected rules.Selection) rules.Selection {
	if selected.Mistake != nil && selected.Mistake.Code == rules.MalformedField {
		return selected
	}
	refused := func(code, message string) rules.Selection {
		if !selected.Tried {
			selected.Mistake = &rules.Mistake{Code: code, Message: message}
		}
		return selected
	}
	body, whole, _ := g.readBody(r, asked.Caller.IP)
	switch {
	case !whole:
		return refused("unreadable_call", "The body is longer than 1 MB, ended early, took longer than 30 seconds, or arrives beside too "+
			"many others.")
	case len(body) == 0 && r.Method != http.MethodPost:
		if len(r.Header[rules.CallMethodField]) == 0 { // it calls nothing
			selected.Mistake = nil
		}
		return selected
	}
	call, err := meter.ReadCall(r.Header, body)
	if err != nil {
		return refused("unreadable_call", "The body is no MCP request: "+err.Error()+".")
	}
	asked.Header = r.Header.Clone()
	for name, value := range map[string]string{rules.CallMethodField: call.Method, rules.CallNameField: call.Name} {
		if sent := r.Header[name]; len(sent) > 1 || len(sent) == 1 && rules.DecodeField(sent[0]) != value {
			return refused("call_mismatch", "The field "+name+" differs from the body.")
		}
		delete(asked.Header, name)
		if value != "" || name == rules.CallMethodField { // some methods have no name
			asked.Header[name] = []string{rules.EncodeField(value)}
		}
	}
	return g.o.Select(ctx, now, asked)
}
