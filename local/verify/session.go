package verify

import (
	"cmp"
	"context"
	"encoding/json"
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
)

const (
	// extra is the number of requests that a test sends beyond the limit, and that exhaust sends at once.
	extra = 10
	// After a cold start, the first store call can be late. The environment then does not call the store for a moment.
	coldWait    = 2 * time.Second
	patientCost = 2 // the maximum number of requests of patient
)

// session sends the requests of a run.
type session struct {
	*Deployment
	plan   *Plan
	client *http.Client
	sent   int
}

func newSession(p *Plan) *session {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = cmp.Or(p.deployment.Clients, DefaultClients)
	return &session{Deployment: p.deployment, plan: p, client: &http.Client{
		Transport: transport, Timeout: answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

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

// decided reports whether the answer shows a decision of a limit.
func (a answer) decided() bool { return a.allowed() || a.refused() }

// subjectBusy is the error of a refusal that no limit caused: the store could not write the item of the
// caller fast enough.
const subjectBusy = "subject_busy"

// degraded returns the reason why the store did not decide the request, or "".
func (a answer) degraded() string {
	if reason := a.header.Get(httplimit.DegradedField); reason != subjectBusy {
		return reason
	}
	return ""
}

// remaining returns what the answer shows as the rest of the limit, or -1.
func (a answer) remaining() int {
	n, err := strconv.Atoi(a.header.Get(httplimit.RemainingField))
	if err != nil {
		return -1
	}
	return n
}

// retryAfter returns the wait that the answer asks for, or 0.
func (a answer) retryAfter() time.Duration {
	n, _ := strconv.Atoi(a.header.Get(httplimit.RetryAfterField))
	return time.Duration(max(n, 0)) * time.Second
}

func (a answer) problem() string {
	var body struct{ Error string }
	_ = json.Unmarshal(a.body, &body)
	return body.Error
}

func (a answer) summary() string {
	switch problem := a.problem(); {
	case a.err != nil:
		return "no answer: " + a.err.Error()
	case problem != "":
		return fmt.Sprintf("%d %s", a.status, problem)
	}
	return strconv.Itoa(a.status)
}

// String returns the answer as text, shortened.
func (a answer) String() string {
	if a.err != nil || a.header == nil {
		return fmt.Sprint(a.err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", a.status, http.StatusText(a.status))
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(a.header[name], ", "))
	}
	fmt.Fprintf(&b, "\n%s", a.body)
	if b.Len() <= maxRaw {
		return b.String()
	}
	return strings.ToValidUTF8(b.String()[:maxRaw], "") + "\n… shortened"
}

// request is a request of a run. header has all fields of the request, including the credential.
type request struct {
	method, path string
	header       http.Header
}

func (s *session) get(path string) request {
	return request{method: http.MethodGet, path: path, header: s.Credential}
}

func (s *session) send(ctx context.Context, r request) answer {
	return s.sendEach(ctx, []request{r})[0]
}

// sendEach sends requests, with at most Clients requests at the same time.
func (s *session) sendEach(ctx context.Context, requests []request) []answer {
	answers := make([]answer, len(requests))
	s.sent += len(requests)
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
	a.sent = s.Clock()
	defer func() { a.ended = s.Clock() }()
	q, err := http.NewRequestWithContext(ctx, r.method, strings.TrimSuffix(s.URL, "/")+r.path, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	maps.Copy(q.Header, r.header)
	response, err := s.client.Do(q)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(io.LimitReader(response.Body, maxBody))
	return a
}

// patient sends a request. If a limit refuses it, because an earlier run used the limit, patient waits and
// repeats the request once.
func (s *session) patient(ctx context.Context, r request) answer {
	a := s.send(ctx, r)
	if t := a.retryAfter(); a.refused() && t > 0 && s.wait(ctx, t, "the limit is used up") == nil {
		return s.send(ctx, r)
	}
	return a
}

// exhaust sends requests until a limit refuses, and returns the refusal. Without a refusal it returns the
// last answer. It stops at an answer that shows no decision of a limit.
func (s *session) exhaust(ctx context.Context, r request, t *Target) (a answer, ok bool) {
	for n, sent := 1, 0; sent < t.Capacity+extra && (sent == 0 || a.decided()); n, sent = extra, sent+n {
		answers := s.sendEach(ctx, slices.Repeat([]request{r}, min(n, t.Capacity+extra-sent)))
		if refused, ok := refusalIn(answers); ok {
			return refused, true
		}
		a = answers[0]
	}
	return a, false
}

// refusalIn returns an answer of a limit that refused. It prefers one with the fields of the limit. Without a body,
// only the fields distinguish a refusal by a limit from the refusal of a busy subject.
func refusalIn(answers []answer) (found answer, ok bool) {
	for _, a := range answers {
		if problem := a.problem(); !a.refused() || problem == subjectBusy || problem == "throttled" {
			continue
		}
		if a.header.Get(httplimit.RateLimitField) != "" {
			return a, true
		}
		found, ok = a, true
	}
	return found, ok
}
