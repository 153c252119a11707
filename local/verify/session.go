package verify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter/httplimit"
)

// These bound a request, and the part of its answer that is kept.
const (
	answerTimeout = 30 * time.Second // as long as API Gateway waits for a function
	maxBody       = 64 << 10
	maxRaw        = 4 << 10
	// extra is the number of requests that a burst sends beyond the limit.
	extra = 10
)

// session sends the requests of a run. Rows share its samples, so that each limit is exhausted once.
type session struct {
	*Deployment
	plan     *Plan
	client   *http.Client
	sent     int
	probes   map[string]answer // by URL
	burst    *burst            // of the first URL
	counting *bool             // whether the first URL counts each request; nil if that is unknown
	broke    bool              // the authorizer was made to fail, and requests were answered meanwhile
}

func newSession(p *Plan) *session {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cmp.Or(p.deployment.Clients, DefaultClients)
	return &session{
		Deployment: p.deployment, plan: p, probes: map[string]answer{},
		client: &http.Client{
			Transport: transport, Timeout: answerTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (s *session) close() { s.client.CloseIdleConnections() }

type answer struct {
	status int
	header http.Header
	body   []byte
	sent   time.Time // time when the request started
	ended  time.Time // time when the answer had arrived
	err    error     // set if there was no answer
}

// allowed reports whether a limit admitted the request.
func (a answer) allowed() bool {
	return a.err == nil && !a.refused() && a.header.Get(httplimit.RemainingField) != ""
}

// refused reports whether a limit refused the request. A REST API whose responses are not customized
// answers 403, also for a path without a route.
func (a answer) refused() bool {
	denied := a.status == http.StatusForbidden && a.header.Get("X-Amzn-Errortype") == "AccessDeniedException"
	return a.err == nil && (a.status == http.StatusTooManyRequests || denied)
}

// degraded returns the reason why the store did not decide the request, or "".
func (a answer) degraded() string {
	if reason := a.header.Get(httplimit.DegradedField); reason != subjectBusy {
		return reason
	}
	return ""
}

// decided reports whether the answer shows a decision of a limit.
func (a answer) decided() bool { return a.allowed() || a.refused() }

func (a answer) problem() string {
	var body struct{ Error string }
	_ = json.Unmarshal(a.body, &body)
	return body.Error
}

// String returns the answer as text, shortened.
func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", a.status, http.StatusText(a.status))
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(a.header[name], ", "))
	}
	b.WriteByte('\n')
	b.Write(a.body)
	return bounded(b.String())
}

// bounded shortens text to maxRaw bytes.
func bounded(text string) string {
	if len(text) <= maxRaw {
		return text
	}
	return strings.ToValidUTF8(text[:maxRaw], "") + "\n… shortened"
}

// seconds returns the value of a header field that is a number of seconds.
func (a answer) seconds(name string) (time.Duration, error) {
	n, err := strconv.Atoi(a.header.Get(name))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: got %q, want seconds", name, a.header.Get(name))
	}
	return time.Duration(n) * time.Second, nil
}

var errBudget = errors.New("the run has sent its maximum number of requests")

// request is a request of a run. header has all fields of the request, including the credential.
type request struct {
	method, url, path string
	header            http.Header
}

func (s *session) get(url, path string) request {
	return request{method: http.MethodGet, url: url, path: path, header: s.Credential}
}

func (s *session) send(ctx context.Context, r request) answer { return s.sendAll(ctx, r, 1)[0] }

func (s *session) sendAll(ctx context.Context, r request, n int) []answer {
	return s.sendEach(ctx, slices.Repeat([]request{r}, n))
}

// sendEach sends requests, with at most Clients requests at the same time.
func (s *session) sendEach(ctx context.Context, requests []request) []answer {
	answers, n := make([]answer, len(requests)), len(requests)
	if s.sent+n > s.plan.Requests {
		for i := range answers {
			answers[i].err = errBudget
		}
		return answers
	}
	s.sent += n
	var group sync.WaitGroup
	free := make(chan struct{}, cmp.Or(s.Clients, DefaultClients))
	for i := range answers {
		free <- struct{}{}
		group.Go(func() {
			answers[i] = s.do(ctx, requests[i])
			<-free
		})
	}
	group.Wait()
	return answers
}

func (s *session) do(ctx context.Context, r request) (a answer) {
	a.sent = s.now()
	defer func() { a.ended = s.now() }()
	q, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(r.url, "/")+r.path, http.NoBody)
	if err != nil {
		a.err = err
		return a
	}
	maps.Copy(q.Header, r.header)
	response, err := s.client.Do(q)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		a.err = err
	}
	a.body = bytes.TrimSpace(body)
	return a
}
