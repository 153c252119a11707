package lines_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/log/lines"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// broker keeps lines, or fails with err.
type broker struct {
	lines []string
	err   error
}

func (b *broker) Send(_ context.Context, lines [][]byte) error {
	for _, line := range lines {
		b.lines = append(b.lines, string(line))
	}
	return b.err
}

// payload returns the event with lines of a log.
func payload(t *testing.T, messages ...string) []byte {
	t.Helper()
	var data events.CloudwatchLogsData
	for _, m := range messages {
		data.LogEvents = append(data.LogEvents, events.CloudwatchLogsLogEvent{Message: m})
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(storetest.Must(json.Marshal(data)))
	_ = z.Close()
	return storetest.Must(json.Marshal(map[string]any{"awslogs": map[string]any{"data": packed.Bytes()}}))
}

// The function sends lines of decisions, and nothing that a client can write into an access log. If the broker fails,
// the function fails, so that Lambda repeats the event.
func TestFunction(t *testing.T) {
	c := boot.Config{Namespace: "dev", Store: "memory:"}
	e := storetest.Must(c.LogEnvironment(t.Context(), storetest.Must(memstore.New(memstore.Options{})),
		boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	to := &broker{}
	f := lines.New(e, to)
	want := []string{`{"weir":"refused","count":3}`, `{"weir":"allowed","count":100}`, `{"weir":"shadowed","count":1}`}
	others := []string{`{"weir":"allowed","report":"-"}`, `{"weir":"edge"}`, `{"weir":1}`, `{"Allowed":1}`, "text", `{"weir":"refu`}
	event := payload(t, slices.Concat(want, others)...)
	if _, err := f.Invoke(t.Context(), event); err != nil || !slices.Equal(to.lines, want) {
		t.Errorf("got %q, error %v, want %q", to.lines, err, want)
	}
	to.err = errors.New("broker down")
	if _, err := f.Invoke(t.Context(), event); !errors.Is(err, to.err) {
		t.Errorf("broker down: got error %v, want it", err)
	}
	to.lines = nil
	if _, err := f.Invoke(t.Context(), payload(t, others...)); err != nil || to.lines != nil {
		t.Errorf("without decisions: got %q, error %v, want no call of the broker", to.lines, err)
	}
	if got, err := f.Invoke(t.Context(), []byte(`{"awslogs":{"data":"AAAA"}}`)); err != nil || to.lines != nil {
		t.Errorf("damaged event: got %s, %v and %q, want none: a repetition does not help", got, err, to.lines)
	}
}
