package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter/httpclient"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/load"
	"github.com/weir-limits/weir/local/loopback"
)

// The maxima of a load. They are enough to test one machine, and too small for an attack by
// mistake.
const (
	maxLoadRequests = 1_000_000
	maxLoadDuration = 10 * time.Minute
	maxLoadClients  = 1000
	maxLoadRate     = 100_000
	maxLoadUsers    = 10_000
)

// tokenVariable is the variable with the token. A flag would show the token to other users of the
// machine.
const tokenVariable = "WEIR_TOKEN"

func loadCommand() *cobra.Command {
	l := &loader{}
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Send many requests and measure the answers",
		Long: "Send many requests and measure how many are allowed and refused, and their latencies. " +
			"With --rate, requests start at fixed intervals, even if earlier ones have no answer yet. A latency starts at the planned start of its request. " +
			"Without --rate, each client sends its next request after the answer to its previous one. A run ends after --requests or --duration, whichever comes first.\n\n" +
			"The host of the URL must be this machine, unless --host-allowed names it. --users and --tier send tokens that the local gateway accepts, like weir token. " +
			"Set $" + tokenVariable + " to send another token.\n\n" +
			"Without --polite, the command neither repeats nor delays requests, so the result has all refusals. With --polite, it waits and retries as package httpclient does.\n\n" +
			"The exit status is 0 if there was an answer with any status, 1 if there was no answer, and 130 after an interrupt. An interrupted run prints its results so far.",
		Example: "  weir load http://127.0.0.1:8080/api/v1/search --tier free --rate 50 --duration 5s",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			l.out, l.log = c.OutOrStdout(), c.ErrOrStderr()
			return l.run(c.Context(), args[0])
		},
	}
	f := c.Flags()
	f.Float64Var(&l.rate, "rate", 0, fmt.Sprintf("requests to start per second, at most %d; 0: as fast as answers arrive", maxLoadRate))
	f.BoolVar(&l.poisson, "poisson", false, "with --rate: start requests at random intervals, like independent callers")
	f.IntVar(&l.clients, "clients", 10, fmt.Sprintf("maximum number of concurrent requests, at most %d", maxLoadClients))
	f.IntVar(&l.requests, "requests", 10_000, fmt.Sprintf("maximum number of requests, at most %d", maxLoadRequests))
	f.DurationVar(&l.duration, "duration", 10*time.Second, fmt.Sprintf("time in which requests start, at most %s", maxLoadDuration))
	f.StringVar(&l.method, "method", http.MethodGet, "the method")
	f.StringArrayVar(&l.headers, "header", nil, "a header field, as name: value; may be repeated")
	f.StringVar(&l.body, "body", "", "the body")
	f.IntVar(&l.users, "users", 0, fmt.Sprintf("spread the requests over this many users, at most %d", maxLoadUsers))
	f.StringVar(&l.tier, "tier", "", "the tier of the users; without --users, one user sends the requests")
	f.BoolVar(&l.polite, "polite", false, "wait and retry as Retry-After and the rate-limit fields require")
	f.StringVar(&l.allowed, "host-allowed", "", "permit load on this host, which must be yours")
	f.BoolVar(&l.asJSON, "json", false, "print one JSON object")
	return c
}

type loader struct {
	rate                        float64
	poisson, polite, asJSON     bool
	clients, requests, users    int
	duration                    time.Duration
	method, body, tier, allowed string
	headers                     []string
	out, log                    io.Writer

	template  *http.Request
	tokens    []string // one token for each user
	transport http.RoundTripper
	throttled atomic.Int64 // answers 429 of the stage's throttle
	atEdge    atomic.Int64 // refusals of the viewer function of a distribution
	answered  atomic.Bool
	unopened  atomic.Int64 // connections that the host refused
	giveUp    context.CancelCauseFunc
	wire      *wire // counts all answers, including those that the polite transport answers with a retry
}

func (l *loader) run(ctx context.Context, address string) error {
	if err := l.check(address); err != nil {
		return err
	}
	if err := l.prepare(ctx, address); err != nil {
		return err
	}
	var m load.Meter
	finished := l.show(&m)
	running, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	l.giveUp = giveUp
	load.Run(running, load.Options{
		Requests: l.requests, Duration: l.duration, Clients: l.clients, Rate: l.rate, Poisson: l.poisson, Send: l.send,
	}, &m)
	finished()
	r := measured{URL: address, Result: m.Result(time.Now()), Throttled: l.throttled.Load(), AtEdge: l.atEdge.Load()}
	if l.polite {
		r.Wire = l.wire.answers
	}
	if err := r.print(l.out, l.asJSON); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return command.ExitError{Code: command.Interrupted}
	case running.Err() != nil:
		return context.Cause(running)
	case len(r.Statuses) == 0:
		return command.ExitError{Code: 1}
	}
	return nil
}

// check validates the command line and the target host.
func (l *loader) check(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return command.Usage("got %q, want a URL such as http://127.0.0.1:8080/api/v1/search", address)
	}
	for _, f := range []struct {
		name          string
		got, from, to any
		ok            bool
	}{
		{"rate", l.rate, "0, or 0.01", maxLoadRate, l.rate == 0 || l.rate >= 0.01 && l.rate <= maxLoadRate},
		{"clients", l.clients, 1, maxLoadClients, l.clients >= 1 && l.clients <= maxLoadClients},
		{"requests", l.requests, 1, maxLoadRequests, l.requests >= 1 && l.requests <= maxLoadRequests},
		{"users", l.users, 0, maxLoadUsers, l.users >= 0 && l.users <= maxLoadUsers},
		{"duration", l.duration, "1ms", maxLoadDuration, l.duration >= time.Millisecond && l.duration <= maxLoadDuration},
	} {
		if !f.ok {
			return command.Usage("--%s: got %v, want %v to %v", f.name, f.got, f.from, f.to)
		}
	}
	local, mints := loopback.URL(address), l.users > 0 || l.tier != ""
	switch {
	case l.poisson && l.rate == 0:
		return command.Usage("--poisson: requires --rate")
	case !local && !strings.EqualFold(u.Hostname(), l.allowed):
		return command.Usage("%s is not this machine; if the host is yours, add --host-allowed %s", u.Hostname(), u.Hostname())
	case !local && mints:
		return command.Usage("--users and --tier: the host is not this machine, and other gateways reject these tokens; set %s instead", tokenVariable)
	}
	return nil
}

func (l *loader) prepare(ctx context.Context, address string) (err error) {
	if l.template, err = http.NewRequestWithContext(ctx, l.method, address, strings.NewReader(l.body)); err != nil {
		return command.AsUsage(err)
	}
	for _, header := range l.headers {
		name, value, ok := strings.Cut(header, ":")
		if !ok || name == "" || strings.ContainsAny(header, "\r\n") {
			return command.Usage("--header: want name: value") // no value in the error, because it can be a secret
		}
		if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
			l.template.Host = value // net/http ignores a Host header field
		} else {
			l.template.Header.Add(name, value)
		}
	}
	if err := l.mint(); err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // requests must go only to the host of the URL
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = l.clients, l.clients
	l.wire = &wire{base: transport, answers: map[int]int64{}}
	l.transport = l.wire
	if l.polite {
		l.transport = &httpclient.Transport{Base: l.wire}
	}
	return nil
}

func (l *loader) mint() error {
	if l.users == 0 && l.tier == "" {
		if token := os.Getenv(tokenVariable); token != "" {
			l.tokens = []string{token}
		}
		return nil
	}
	c, err := checkout.FindKeys()
	if err != nil {
		return err
	}
	for i := range max(l.users, 1) {
		token, err := c.Token(fmt.Sprintf("load-%d", i+1), l.tier, time.Hour, nil)
		if err != nil {
			return err
		}
		l.tokens = append(l.tokens, token)
	}
	return nil
}

// maxUnopened is the number of refused connections after which a load without an answer ends.
const maxUnopened = 100

// maxAnswer is the maximum number of bytes of a response body that a loader reads.
const maxAnswer = 1 << 20

func (l *loader) send(ctx context.Context, n int) (int, error) {
	r := l.template.Clone(ctx)
	r.Body, _ = l.template.GetBody() // GetBody never fails for a body from a string
	if len(l.tokens) > 0 {
		r.Header.Set("Authorization", "Bearer "+l.tokens[n%len(l.tokens)])
	}
	answer, err := l.transport.RoundTrip(r)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) && !l.answered.Load() && l.unopened.Add(1) == maxUnopened {
			l.giveUp(fmt.Errorf("%s refused the first %d connections: no server listens there", l.template.URL.Host, maxUnopened))
		}
		return 0, err
	}
	l.answered.Store(true)
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, err
	}
	switch {
	case answer.StatusCode != http.StatusTooManyRequests:
	case answer.Header.Get(edge.AnsweredField) != "":
		l.atEdge.Add(1)
	case throttled(body):
		l.throttled.Add(1)
	}
	return answer.StatusCode, nil
}

// throttled reports whether body belongs to a 429 of the throttle of a stage: the gateway response of a REST API, or
// the answer of an HTTP API.
func throttled(body []byte) bool {
	var problem struct{ Error, Message string }
	return json.Unmarshal(body, &problem) == nil && (problem.Error == "throttled" || problem.Error == "" && problem.Message == "Too Many Requests")
}

// wire is the transport below the polite one. It counts every answer by status.
type wire struct {
	base    http.RoundTripper
	mu      sync.Mutex
	answers map[int]int64 // number of answers by HTTP status
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.base.RoundTrip(r)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.answers[answer.StatusCode]++
	}
	return answer, err
}

// show prints progress on a terminal. Call the returned function to stop it.
func (l *loader) show(m *load.Meter) (finished func()) {
	if !command.IsTerminal(l.log) {
		return func() {}
	}
	var line sync.WaitGroup
	done := make(chan struct{})
	line.Go(func() {
		tick := time.NewTicker(time.Second / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(l.log, "\r\x1b[K%s", progress(m.Result(time.Now())))
			case <-done:
				fmt.Fprint(l.log, "\r\x1b[K")
				return
			}
		}
	})
	return func() { close(done); line.Wait() }
}
