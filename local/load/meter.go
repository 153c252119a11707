package load

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Meter counts the requests of one Run. The zero value is ready for use, and safe for concurrent use.
type Meter struct {
	mu          sync.Mutex
	begun, over time.Time // start and end of the time in which requests start
	counts      Result
	latencies   map[string]*hdrhistogram.Histogram // by class of requests; in microseconds
}

// Result holds the measurements.
type Result struct {
	Requests int64         `json:"requests"`          // started requests
	Took     time.Duration `json:"-"`                 // duration in which requests started
	Seconds  float64       `json:"seconds"`           // Took in seconds
	Statuses map[int]int64 `json:"statuses"`          // answers by status
	Allowed  int64         `json:"allowed"`           // answers below 400
	Refused  int64         `json:"refused"`           // answers 429
	Other    int64         `json:"other"`             // other answers
	Failed   int64         `json:"failed"`            // requests without an answer
	Failure  string        `json:"failure,omitempty"` // reason of the first failure
	UnderWay int64         `json:"underWay"`          // requests that had not ended when Run returned
	NotSent  int64         `json:"notSent"`           // requests that were due while all clients were busy
	// Latencies has three entries: for allowed answers, for refused answers, and for all requests except
	// the failed ones. The entry for all requests includes the requests under way and the requests not
	// sent, with their wait until the run ended. If there are such requests, the percentiles of this
	// entry are lower bounds.
	Latencies map[string]Latency `json:"latenciesMs"`
	Histogram []Bar              `json:"histogram"` // latencies of the requests in Latencies[All]
}

// Latency is the distribution of the latencies of requests, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Bar is the number of requests that took at most UpTo, but longer than the previous Bar's UpTo.
type Bar struct {
	UpTo  float64 `json:"upToMs"`
	Count int64   `json:"count"`
}

// The classes of requests with separate latencies.
const (
	All     = "all"
	Allowed = "allowed"
	Refused = "refused"
)

const longest = 10 * time.Minute // longest latency that is recorded

func (m *Meter) start(begun, over time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun, m.over, m.counts.Statuses, m.latencies = begun, over, map[int]int64{}, map[string]*hdrhistogram.Histogram{}
}

func (m *Meter) stop(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Before(m.over) {
		m.over = now
	}
}

func (m *Meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Requests++
	m.counts.UnderWay++
}

// miss records a request that was due but never sent.
func (m *Meter) miss(waited time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.NotSent++
	m.note(All, waited)
}

// end records the result of a request. If cut is true, the end of the run canceled the request: it counts
// as under way, and its latency is a lower bound.
func (m *Meter) end(status int, err error, took time.Duration, cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && cut {
		m.note(All, took)
		return
	}
	m.counts.UnderWay--
	if err != nil {
		if m.counts.Failed++; m.counts.Failed == 1 {
			m.counts.Failure = err.Error()
		}
		return
	}
	m.counts.Statuses[status]++
	m.note(All, took)
	switch {
	case status < http.StatusBadRequest:
		m.counts.Allowed++
		m.note(Allowed, took)
	case status == http.StatusTooManyRequests:
		m.counts.Refused++
		m.note(Refused, took)
	default:
		m.counts.Other++
	}
}

func (m *Meter) note(class string, took time.Duration) {
	h := m.latencies[class]
	if h == nil {
		h = hdrhistogram.New(1, longest.Microseconds(), 3)
		m.latencies[class] = h
	}
	_ = h.RecordValue(min(max(took, 0), longest).Microseconds()) // fails only outside the bounds
}

// Result returns the measurements until the time now.
func (m *Meter) Result(now time.Time) Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.counts
	if now.After(m.over) {
		now = m.over
	}
	r.Took = now.Sub(m.begun)
	r.Seconds, r.Statuses, r.Latencies = r.Took.Seconds(), maps.Clone(m.counts.Statuses), map[string]Latency{}
	for class, h := range m.latencies {
		p := h.ValueAtPercentiles([]float64{50, 90, 99, 99.9})
		r.Latencies[class] = Latency{milliseconds(p[50]), milliseconds(p[90]), milliseconds(p[99]), milliseconds(p[99.9]), milliseconds(h.Max())}
	}
	r.Histogram = bars(m.latencies[All])
	return r
}

// bars returns the counts of a histogram. The upper bound of each bar is twice that of the previous
// one. bars omits empty bars at both ends.
func bars(h *hdrhistogram.Histogram) (all []Bar) {
	if h == nil {
		return nil
	}
	upTo, count := int64(125), int64(0)
	add := func() {
		if count > 0 || len(all) > 0 {
			all = append(all, Bar{milliseconds(upTo), count})
		}
		upTo, count = upTo*2, 0
	}
	for _, bar := range h.Distribution() {
		if bar.Count == 0 {
			continue
		}
		for bar.To > upTo {
			add()
		}
		count += bar.Count
	}
	add()
	return all
}

func milliseconds(microseconds int64) float64 { return float64(microseconds) / 1000 }
