package httplimit

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
)

// Body returns the content type and the body of a refusal in a form: rules.RefusalProblem, RefusalOpenAI or
// RefusalJSONRPC. "" means RefusalProblem. id is that of a request in JSON-RPC; nil means null.
func (p *Problem) Body(form string, id json.RawMessage) (contentType string, body []byte) {
	contentType, content := "application/json", any(p)
	switch form {
	case rules.RefusalOpenAI:
		kind := group(p.Status, "invalid_request_error", "rate_limit_error", "server_error")
		content = map[string]any{"error": openAIError{p.Message, kind, nil, p.Error, p.Wait}}
	case rules.RefusalJSONRPC:
		content = rpcAnswer{"2.0", id, rpcError{group(p.Status, rpcInvalidRequest, rpcRateLimited, rpcInternalError), p.Message, p}}
	default:
		contentType = "application/problem+json"
	}
	body, _ = json.Marshal(content) // Marshal never fails for strings, numbers and a checked id
	return contentType, body
}

// refuseTimeout bounds how long a refusal waits for the body of its request: net/http reads what is left of a body before it
// answers.
const refuseTimeout = time.Second

// refuse writes the answer to the refused request r.
func (a Answer) refuse(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody { // the server sets another deadline for its next request
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refuseTimeout))
	}
	if a.Refusal == rules.RefusalJSONRPC {
		a.id = rpcID(r)
	}
	a.Refuse(w)
}

// openAIError is the error that the SDKs of OpenAI read.
type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Wait    int64   `json:"retry_after,omitempty"`
}

// rpcAnswer is an answer of JSON-RPC 2.0, as MCP uses it.
type rpcAnswer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   rpcError        `json:"error"`
}

type rpcError struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Data    *Problem `json:"data"`
}

// These are codes of JSON-RPC. rpcRateLimited is in the range for servers.
const (
	rpcRateLimited    = -32029
	rpcInvalidRequest = -32600
	rpcInternalError  = -32603
)

// group selects one of three values by the status of a problem.
func group[T any](status int, invalid, limited, failed T) T {
	switch {
	case status == http.StatusTooManyRequests:
		return limited
	case status >= http.StatusInternalServerError:
		return failed
	}
	return invalid
}

// These constants bound what is read of the body of a refused request to find its id.
const (
	maxRPC = 64 << 10
	maxID  = 128
)

// rpcID returns the id of the JSON-RPC request in the body of r. It returns nil if the body has none, is a batch, is too long, or
// waits for permission (100-continue).
func rpcID(r *http.Request) json.RawMessage {
	if r.Body == nil || r.Header.Get("Expect") != "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRPC))
	var request struct {
		ID json.RawMessage `json:"id"`
	}
	if err != nil || json.Unmarshal(body, &request) != nil || len(request.ID) > maxID {
		return nil
	}
	var id any
	_ = json.Unmarshal(request.ID, &id) // Unmarshal has checked the body
	switch id.(type) {
	case string, float64:
		return request.ID
	}
	return nil
}
