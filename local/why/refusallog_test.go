package why_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/why"
)

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hash = telemetry.NewSubjectHash("dev", []byte("the key of this test"))
)

// ask asks a gateway whose clock shows a minute after noon.
func ask(t *testing.T, r *why.RefusalLog, q why.Question) (why.Refusals, error) {
	t.Helper()
	s := httptest.NewServer(r.Handler(func() time.Time { return noon.Add(time.Minute) }, 64, func(time.Time) {}))
	defer s.Close()
	client, err := operator.NewGateway(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return operator.Ask[why.Refusals](t.Context(), client, why.Path, q)
}

func write(t *testing.T, w io.Writer, prefix string, l telemetry.DecisionLine) {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", prefix, text); err != nil {
		t.Fatal(err)
	}
}

// A RefusalLog answers questions about a caller, a period, the shadow mode and the number of rows. It passes on all lines.
func TestRecord(t *testing.T) {
	var out bytes.Buffer
	r := why.NewRefusalLog(&out)
	named := r.Hash(hash)(limiter.User("alice"))
	bob := hash(limiter.User("bob"))
	line := func(kind string, second int, subject, limit string, n, remaining int64) {
		write(t, r, "f/1  ", telemetry.DecisionLine{Kind: kind, Time: noon.Add(time.Duration(second) * time.Second), Subject: subject,
			Rule: "GET /a/{id}", Limit: limit, Capacity: 9, Remaining: remaining, RetryAfter: 1.5, Count: n})
	}
	line("refused", 0, named, "search", 3, 2)
	line("refused", 50, bob, "search", 4, 0)
	line("refused", 40, named, "search", 2, 1)
	line("refused", 40, named, "day", 1, 0)
	line("shadowed", 40, bob, "tried", 7, 0)
	write(t, r, "", telemetry.DecisionLine{Kind: "refused", Time: noon.Add(50 * time.Second), Count: 5})
	for _, other := range []string{"text\n", "f/1  {\"weir\":\"notice\"}\n", "{\n", "{\"_aws\":{}}\n"} {
		if _, err := io.WriteString(r, other); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 10 {
		t.Errorf("lines passed on: got %d, want all 10", lines)
	}
	row := func(name, subject, limit string, n int64, first, last int, remaining int64) why.Row {
		return why.Row{Caller: name, Subject: subject, Rule: "GET /a/{id}", Limit: limit, Count: n,
			First: noon.Add(time.Duration(first) * time.Second), Last: noon.Add(time.Duration(last) * time.Second), Capacity: 9,
			Remaining: remaining, RetryAfter: 1.5}
	}
	search, day, bobs := row("user:alice", named, "search", 5, 0, 40, 1), row("user:alice", named, "day", 1, 40, 40, 0),
		row("", bob, "search", 4, 50, 50, 0)
	late := search
	late.Count, late.First = 2, noon.Add(40*time.Second)
	for _, c := range []struct {
		question               why.Question
		count, others, unnamed int64
		rows                   []why.Row
	}{
		{why.Question{}, 15, 0, 5, []why.Row{search, bobs, day}},
		{why.Question{Number: 1}, 15, 5, 5, []why.Row{search}},
		{why.Question{Since: "20s"}, 12, 0, 5, []why.Row{bobs, late, day}},
		{why.Question{Subject: "user:alice"}, 6, 0, 5, []why.Row{search, day}},
		{why.Question{Subject: "user:zoe"}, 0, 0, 5, []why.Row{}},
		{why.Question{Shadow: true}, 7, 0, 0, []why.Row{row("", bob, "tried", 7, 40, 40, 0)}},
	} {
		got, err := ask(t, r, c.question)
		if err != nil || got.Count != c.count || got.Others != c.others || got.Unnamed != c.unnamed || !reflect.DeepEqual(got.Rows, c.rows) ||
			!got.To.Equal(noon.Add(time.Minute)) {
			t.Errorf("%+v:\ngot  %+v, error %v\nwant %d requests, %d others, %d unnamed and %+v", c.question, got, err, c.count, c.others, c.unnamed,
				c.rows)
		}
	}
	// The gateway knows the name of a caller from a question too.
	if got, err := ask(t, r, why.Question{Subject: "user:bob"}); err != nil || len(got.Rows) != 1 || got.Rows[0].Caller != "user:bob" {
		t.Errorf("question about bob: got %+v, error %v, want one row with the name", got, err)
	}
	for question, want := range map[why.Question]string{
		{Since: "x"}:            `since: got "x", want a period such as 10m`,
		{Since: "-1s"}:          `since: got "-1s", want a period such as 10m`,
		{Number: -1}:            "number: got -1, want 1 to 1000",
		{Number: 1001}:          "number: got 1001, want 1 to 1000",
		{Subject: "global"}:     `caller: got "global", want user:ID, apikey:ID or ip:ADDRESS`,
		{Subject: "user:a|b:c"}: `caller: got "user:a|b:c", want user:ID, apikey:ID or ip:ADDRESS`,
		{Subject: "ip:x"}:       `subject: ip:x: "x" is no IP address (want one such as ip:203.0.113.7 or ip:2001:db8::1, or ip:unknown)`,
	} {
		if _, err := ask(t, r, question); err == nil || err.Error() != want {
			t.Errorf("%+v: got error %v, want %s", question, err, want)
		}
	}
}

// However many callers are refused, a RefusalLog keeps ten thousand lines and names.
func TestRecord_bounded(t *testing.T) {
	r := why.NewRefusalLog(io.Discard)
	named := r.Hash(hash)
	fill := func(from int) {
		for i := from; i < from+30_000; i++ {
			write(t, r, "", telemetry.DecisionLine{Kind: "refused", Time: noon,
				Subject: named(limiter.User(fmt.Sprint(strings.Repeat("u", 100), i))), Count: 1})
		}
	}
	size := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	fill(0)
	before := size()
	fill(30_000)
	if grown := int64(size()) - int64(before); grown > 1<<20 {
		t.Errorf("memory after 30,000 more callers: got %d bytes more, want at most 1 MiB", grown)
	}
	got, err := ask(t, r, why.Question{})
	if err != nil || got.Count != 10_000 || got.Others != 9_000 || len(got.Rows) != 1000 {
		t.Errorf("got %d refusals, %d others, %d rows, error %v, want the newest 10,000 and 1,000 rows", got.Count, got.Others, len(got.Rows),
			err)
	}
	if got, err := ask(t, r, why.Question{Subject: "user:" + strings.Repeat("u", 100) + "59999"}); err != nil || got.Count != 1 {
		t.Errorf("newest caller: got %+v, error %v, want one refusal", got, err)
	}
	runtime.KeepAlive(r)
}

// The endpoint reads only a question in JSON.
func TestRecord_Handler(t *testing.T) {
	r := why.NewRefusalLog(io.Discard)
	r.Hash(hash)
	w := httptest.NewRecorder()
	r.Handler(time.Now, 64, func(time.Time) {}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, why.Path,
		strings.NewReader(`{"caller":"x"}`)))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "unknown field") {
		t.Errorf("unknown member: got %d %s, want 400", w.Code, w.Body)
	}
}
