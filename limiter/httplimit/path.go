package httplimit

import (
	"net/http"

	"github.com/weir-limits/weir/limiter/rules"
)

// MalformedPath returns the answer to a request whose path rules.ParsePath rejects. It is a
// 400; an authorizer of a REST API, which can only deny, puts it into the body of its 429.
func MalformedPath() Answer {
	return Answer{Problem: &Problem{
		Type:    "about:blank",
		Title:   http.StatusText(http.StatusBadRequest),
		Status:  http.StatusBadRequest,
		Error:   "malformed_path",
		Message: "A percent sign in the path is not followed by two hexadecimal digits. Write %25 for a percent sign.",
	}}
}

// routed returns r with the path that was charged, and no other spelling of it.
func routed(r *http.Request, path rules.Path) *http.Request {
	if r.URL.RawPath == "" && r.URL.Path == path.String() {
		return r
	}
	u, copied := *r.URL, *r
	u.Path, u.RawPath = path.String(), ""
	copied.URL = &u
	return &copied
}
