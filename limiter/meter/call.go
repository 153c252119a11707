package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Call is the method and the name in the body of a request of the Model Context Protocol (MCP). Method is "" for a JSON-RPC
// response. Name is "" for a method without a name.
type Call struct{ Method, Name string }

// callPaths are the members that a Call depends on.
var callPaths = [][]string{{"method"}, {"params"}, {"params", "name"}, {"params", "uri"}, {"params", "taskId"}}

// ReadCall reads the body of a request with the header h. An error says why back ends may read it in another way, or not at all.
func ReadCall(h http.Header, body []byte) (c Call, err error) {
	switch {
	case !readable(h):
		return c, errors.New("its type is not application/json, or it is encoded")
	case !utf8.Valid(body) || !json.Valid(body):
		return c, errors.New("it is no JSON text")
	}
	s := &scanner{names: callPaths, wanted: 1<<len(callPaths) - 1, strict: true, ended: func(bool) {}, found: func(Set, []byte) {}}
	s.Write(body)
	for i := range s.ambiguous.each {
		return c, fmt.Errorf("it has the member %q twice, or in another case", strings.Join(callPaths[i], "."))
	}
	var message struct {
		Method        *string
		Params        struct{ Name, URI, TaskID string }
		Result, Error json.RawMessage
	}
	if err := json.Unmarshal(body, &message); err != nil || s.broken {
		return c, errors.New("it is no single JSON-RPC message") // for example a batch
	}
	switch {
	case message.Method == nil && message.Result == nil && message.Error == nil:
		return c, errors.New("it has no method")
	case message.Method == nil:
		return c, nil
	}
	c.Method = *message.Method
	switch c.Method {
	case "tools/call", "prompts/get":
		c.Name = message.Params.Name
	case "resources/read":
		c.Name = message.Params.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		c.Name = message.Params.TaskID
	}
	return c, nil
}
