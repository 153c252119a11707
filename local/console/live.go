package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Maximum values for the runs that the page starts.
const (
	MaxCount = 500 // requests of one run
	MaxRate  = 50  // requests a second of one run
	MaxRuns  = 4   // concurrent runs
)

const (
	maxOrder   = 4 << 10 // bytes of an order
	maxUser    = 64
	maxAnswer  = 2 << 10     // bytes of an answer's body that the page shows
	maxHeaders = 64 << 10    // bytes of an answer's header
	maxWaiting = 16          // requests of one run without an answer, at the same time
	patience   = time.Minute // timeout of a request; the timeout of API Gateway is shorter
	shown      = 40          // number of characters that an error quotes of a wrong value
)

// order is the body of a request that starts a run.
type order struct {
	API    string `json:"api"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Tier   string `json:"tier"` // empty for an anonymous caller
	User   string `json:"user"`
	Count  int    `json:"count"`
	Rate   int    `json:"rate"` // requests a second
}

// answer is the outcome of one request of an order. The console sends one line of JSON for each.
type answer struct {
	Number     int                 `json:"number"`
	Status     int                 `json:"status"` // 0 if there was no answer
	StatusText string              `json:"statusText"`
	Latency    float64             `json:"latencyMs"`
	Header     map[string][]string `json:"header,omitempty"`
	Body       string              `json:"body"`
}

// client connects to the listeners directly. It ignores proxies of the environment.
var client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: maxWaiting, MaxResponseHeaderBytes: maxHeaders},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       patience,
}

// send sends the requests of an order and writes a line for each answer. It ends when all
// requests have an answer or when the page disconnects.
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

// request returns the request that an order describes. A run sends copies of this request.
func (c *Console) request(o order) (*http.Request, error) {
	tiers := c.Rules().Tiers()
	api := slices.IndexFunc(c.APIs, func(a API) bool { return a.Kind == o.API })
	switch {
	case api < 0:
		return nil, fmt.Errorf("api: got %s, want an API of this gateway", quote(o.API))
	case !slices.Contains(c.APIs[api].Endpoints(), Endpoint{o.Method, o.Path}):
		return nil, fmt.Errorf("endpoint: got %s, want an endpoint to which a rule applies", quote(o.Method+" "+o.Path))
	case o.Tier != "" && !slices.Contains(tiers, o.Tier):
		return nil, fmt.Errorf("tier: got %s, want %s, or none", quote(o.Tier), strings.Join(tiers, ", "))
	case o.Tier != "" && (o.User == "" || len(o.User) > maxUser):
		return nil, fmt.Errorf("user: got %s, want 1 to %d bytes", quote(o.User), maxUser)
	case o.Count < 1 || o.Count > MaxCount:
		return nil, fmt.Errorf("count: got %d, want 1 to %d", o.Count, MaxCount)
	case o.Rate < 1 || o.Rate > MaxRate:
		return nil, fmt.Errorf("rate: got %d, want 1 to %d a second", o.Rate, MaxRate)
	}
	request, err := http.NewRequest(o.Method, c.APIs[api].URL+o.Path, http.NoBody) //nolint:noctx // each copy gets a context
	if err != nil {
		return nil, err
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

// quote quotes the start of a wrong value.
func quote(text string) string { return fmt.Sprintf("%.*q", shown, text) }

// run sends copies of a request with pauses between them. The channel returns the answers in the order of
// their arrival. run sends no request after ctx ends. A caller that stops reading the channel must cancel
// ctx.
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

// try sends one request.
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
