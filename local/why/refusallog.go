package why

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
)

const (
	maxLines = 10_000 // lines that a RefusalLog keeps
	maxNames = 10_000 // names of callers that a RefusalLog keeps
)

// RefusalLog keeps the newest lines of refusals of a local gateway, in bounded memory. Create it with NewRefusalLog. It is
// safe for concurrent use.
type RefusalLog struct {
	out io.Writer

	mu    sync.Mutex
	lines []telemetry.DecisionLine // a ring: next is the oldest line if it is full
	next  int
	names map[string]string // hash: subject
	hash  telemetry.SubjectHash
}

// NewRefusalLog returns a RefusalLog that passes everything written to it on to out.
func NewRefusalLog(out io.Writer) *RefusalLog {
	return &RefusalLog{out: out, names: map[string]string{}}
}

// Write implements io.Writer. Each call has one line of the log of a function. It ignores text before the first brace,
// such as the name of an environment.
func (r *RefusalLog) Write(line []byte) (int, error) {
	var l telemetry.DecisionLine
	if start := bytes.IndexByte(line, '{'); start >= 0 && json.Unmarshal(line[start:], &l) == nil && (l.Kind == telemetry.LineRefused ||
		l.Kind == telemetry.LineShadowed) {
		r.keep(l)
	}
	return r.out.Write(line)
}

func (r *RefusalLog) keep(l telemetry.DecisionLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < maxLines {
		r.lines = append(r.lines, l)
		return
	}
	r.lines[r.next] = l
	r.next = (r.next + 1) % maxLines
}

// Hash returns a hash with the same results as hash, for the functions of the gateway. The RefusalLog remembers the names of
// the callers that it hashes. Call it before the first question.
func (r *RefusalLog) Hash(hash telemetry.SubjectHash) telemetry.SubjectHash {
	r.hash = hash
	return r.HashOf
}

// HashOf returns the hash of a subject, and remembers the name of the subject.
func (r *RefusalLog) HashOf(s limiter.Subject) string {
	hashed, name := r.hash(s), s.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.names[hashed]; !known && len(r.names) >= maxNames {
		r.forget()
	}
	r.names[hashed] = name
	return hashed
}

// forget removes the names that are in no line. If there are none, it removes all names.
func (r *RefusalLog) forget() {
	named := map[string]bool{}
	for i := range r.lines {
		named[r.lines[i].Subject] = true
	}
	maps.DeleteFunc(r.names, func(hashed, _ string) bool { return !named[hashed] || len(named) >= maxNames })
}

// answer returns the refusals in lines of a kind since from. subject is the hash of a caller; "" means every caller. The
// answer has at most most rows.
func (r *RefusalLog) answer(kind, subject string, from, to time.Time, most int) Refusals {
	a := Refusals{From: from, To: to, Rows: []Row{}}
	rows := map[Row]*Row{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.lines {
		l := &r.lines[i]
		if l.Kind != kind || l.Time.Before(from) || subject != "" && l.Subject != "" && l.Subject != subject {
			continue
		}
		if l.Subject == "" {
			a.addUnnamed(l.Count, subject)
			continue
		}
		a.Count += l.Count
		of := Row{Caller: r.names[l.Subject], Subject: l.Subject, Rule: l.Rule, Limit: l.Limit, Blocked: l.Blocked}
		if rows[of] == nil {
			row := of
			rows[of] = &row
		}
		rows[of].add(l)
	}
	for _, row := range slices.Collect(maps.Values(rows)) {
		a.Rows = append(a.Rows, *row)
	}
	a.finish(most)
	return a
}
