package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
	"sync"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/local/gateway/template"
)

// CloudWatch Logs sends several lines in one event. maxBatch is the largest number of lines in an
// event. maxWaiting is the largest number of lines that wait for one function; more lines are
// dropped.
const (
	maxBatch   = 100
	maxWaiting = 2_000
)

// logAccess writes the access-log line of a request. Call it before the answer is sent, so that the
// line exists when the client has the answer. length is the number of bytes of the answer's body.
func (h *restHandler) logAccess(c *restCall, v map[string]string, status, length int) {
	if len(h.subscribers) == 0 {
		return
	}
	v["status"], v["responseLength"] = strconv.Itoa(status), strconv.Itoa(length)
	c.latencies["responseLatency"] = h.clock().Sub(c.at)
	for name, latency := range c.latencies {
		v[name] = strconv.FormatInt(latency.Milliseconds(), 10)
	}
	line := h.api.AccessLog.Format.Render(v, "-")
	for _, s := range h.subscribers {
		if s.filter.Selects(line) {
			s.add(events.CloudwatchLogsLogEvent{ID: rand.Text(), Timestamp: c.at.UnixMilli(), Message: line})
		}
	}
}

// subscriber sends the lines of a log group to one function. It sends one event at a time. An event
// has all waiting lines, up to maxBatch.
type subscriber struct {
	*runtime

	id, function, group string
	filter              template.LineFilter

	mu      sync.Mutex
	lines   []events.CloudwatchLogsLogEvent
	dropped int           // lines that were dropped since the last event
	sending chan struct{} // closed when the queue is empty; nil while no event is being sent
}

func newSubscribers(shared *runtime, log *template.AccessLog) (all []*subscriber) {
	if log == nil {
		return nil
	}
	for _, s := range log.Subscriptions {
		all = append(all, &subscriber{runtime: shared, id: s.ID, function: s.Function, group: log.Group, filter: s.Filter})
	}
	return all
}

func (s *subscriber) add(line events.CloudwatchLogsLogEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == maxWaiting {
		s.dropped++
		return
	}
	s.lines = append(s.lines, line)
	if s.sending == nil {
		s.sending = make(chan struct{})
		go s.send(s.sending)
	}
}

func (s *subscriber) send(done chan struct{}) {
	defer close(done)
	for {
		batch, dropped := s.take()
		if len(batch) == 0 {
			return
		}
		if dropped > 0 {
			s.logger.Warn("log lines dropped: too many lines wait for the function", slog.String("function", s.function), slog.Int("lines", dropped))
		}
		id := rand.Text()
		if _, err := s.invoke(context.Background(), s.function, s.event(batch), math.MaxInt64); err != nil {
			s.log(context.Background(), "log lines not delivered", s.function, id, err)
		}
	}
}

// take removes up to maxBatch lines from the queue and returns them. If the queue is empty, take
// ends the sending.
func (s *subscriber) take() (batch []events.CloudwatchLogsLogEvent, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.lines), maxBatch)
	batch, s.lines = s.lines[:n:n], s.lines[n:]
	dropped, s.dropped = s.dropped, 0
	if n == 0 {
		s.lines, s.sending = nil, nil
	}
	return batch, dropped
}

// event builds the CloudWatch Logs event for the lines (Lambda developer guide, "Using Lambda with
// CloudWatch Logs").
func (s *subscriber) event(lines []events.CloudwatchLogsLogEvent) events.CloudwatchLogsEvent {
	content, _ := json.Marshal(events.CloudwatchLogsData{ // Marshal never fails for texts and numbers
		MessageType: "DATA_MESSAGE", Owner: template.Account, LogGroup: s.group, LogStream: "local",
		SubscriptionFilters: []string{s.id}, LogEvents: lines,
	})
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(content) // a write to memory never fails
	_ = w.Close()
	return events.CloudwatchLogsEvent{AWSLogs: events.CloudwatchLogsRawData{Data: base64.StdEncoding.EncodeToString(packed.Bytes())}}
}
