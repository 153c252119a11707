package console

import (
	"context"
	"encoding/json"
	"fmt"
	"github.com/weir-limits/weir/local/serve"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of a run and of its requests.
const (
	MaxCount = 500 // requests of one run
	MaxRate  = 50  // requests a second of one run
	MaxRuns  = 4   // concurrent runs
)

const (
	maxOrder   = 4 << 10 // bytes of an order's JSON
	maxUser    = 64
	maxAnswer  = 2 << 10     // bytes of a response body that the page shows
	maxHeaders = 64 << 10    // bytes of a response header
	maxWaiting = 16          // requests of one run that may wait for an answer at once
	patience   = time.Minute // timeout of one request, longer than API Gateway's
	shown      = 40          // characters of an invalid value that an error quotes
)

// order is the JSON body that starts a run of equal requests.
type order struct {
	API    string `json:"api"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Tier   string `json:"tier"` // empty for an anonymous caller
	User   string `json:"user"`
	Count  int    `json:"count"`
	Rate   int    `json:"rate"` // requests per second
}

// answer is the outcome of one request. The page gets one JSON line for each.
type answer struct {
	Number     int                 `json:"number"`
	Status     int                 `json:"status"` // HTTP status, or 0 without an answer
	StatusText string              `json:"statusText"`
	Latency    float64             `json:"latencyMs"`
	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body"`
}

// client ignores the proxy settings of the environment, so requests go directly to the APIs.
var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: maxWaiting, MaxResponseHeaderBytes: maxHeaders},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       patience,
}

// send runs an order and writes one line for each answer. It ends when every request has an answer
// or the page disconnects.
func (c *Console) send(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(http.MaxBytesReader(w, r.Body, maxOrder))
	var request *http.Request
	if err == nil {
		request, err = c.request(o)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case c.runs <- struct{}{}:
		defer func() { <-c.runs }()
	default:
		http.Error(w, fmt.Sprintf("runs: %d are active, the maximum; stop one first", MaxRuns), http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines, flush := json.NewEncoder(w), http.NewResponseController(w)
	for a := range run(ctx, request, o.Count, time.Second/time.Duration(o.Rate)) {
		if lines.Encode(a) != nil || flush.Flush() != nil {
			return
		}
	}
}

func readOrder(body io.Reader) (o order, err error) {
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("order: %w", err)
	}
	return o, nil
}

// request builds the request of an order. A run sends copies of it.
func (c *Console) request(o order) (*http.Request, error) {
	tiers := c.Rules().Tiers()
	api := slices.IndexFunc(c.APIs, func(a serve.API) bool { return a.Kind == o.API })
	switch {
	case api < 0:
		return nil, fmt.Errorf("api: got %s, want an API of this gateway", quote(o.API))
	case !slices.ContainsFunc(c.APIs[api].Endpoints(), func(e serve.Endpoint) bool { return e.Method == o.Method }):
		return nil, fmt.Errorf("method: got %s, want that of an endpoint to which a rule applies", quote(o.Method))
	case o.Tier != "" && !slices.Contains(tiers, o.Tier):
		return nil, fmt.Errorf("tier: got %s, want %s, or none", quote(o.Tier), strings.Join(tiers, ", "))
	case o.Tier != "" && (o.User == "" || len(o.User) > maxUser):
		return nil, fmt.Errorf("user: got %s, want 1 to %d bytes", quote(o.User), maxUser)
	case o.Count < 1 || o.Count > MaxCount:
		return nil, fmt.Errorf("count: got %d, want 1 to %d", o.Count, MaxCount)
	case o.Rate < 1 || o.Rate > MaxRate:
		return nil, fmt.Errorf("rate: got %d, want 1 to %d a second", o.Rate, MaxRate)
	}
	request, err := http.NewRequest(o.Method, c.APIs[api].URL+o.Path, http.NoBody) //nolint:noctx // no context here: each copy gets its own
	if err != nil || !strings.HasPrefix(o.Path, "/") || strings.HasPrefix(request.URL.Path, serve.SitePath) {
		return nil, fmt.Errorf("path: got %s, want one that begins with /, outside of %s", quote(o.Path), serve.SitePath)
	}
	if o.Tier != "" {
		token, err := c.Token(o.User, o.Tier)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

// quote quotes the first characters of an invalid value.
func quote(text string) string { return fmt.Sprintf("%.*q", shown, text) }

// run sends count copies of the request, with a pause between two copies. When ctx ends, it sends no more.
// The channel returns answers as they arrive. Cancel ctx if you stop reading the channel.
func run(ctx context.Context, request *http.Request, count int, pause time.Duration) <-chan answer {
	answers := make(chan answer)
	go func() {
		defer close(answers)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		room, ticks := make(chan struct{}, maxWaiting), time.NewTicker(pause)
		defer ticks.Stop()
		for n := 1; n <= count; n++ {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			waiting.Go(func() {
				defer func() { <-room }()
				select {
				case answers <- try(request.Clone(ctx), n):
				case <-ctx.Done():
				}
			})
			if n == count {
				return
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return answers
}

func try(r *http.Request, n int) answer {
	begun := time.Now()
	response, err := client.Do(r)
	if err != nil {
		return answer{Number: n, StatusText: "no answer", Body: err.Error()}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{Number: n, StatusText: "no answer", Body: err.Error()}
	}
	return answer{Number: n, Status: response.StatusCode, StatusText: http.StatusText(response.StatusCode),
		Latency: float64(time.Since(begun)) / 1e6, Header: response.Header, Body: string(body)}
}
