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
	maxLines = 10_000 // lines that a Record keeps
	maxNames = 10_000 // names of callers that a Record keeps
)

// Record keeps the newest lines of refusals of a local gateway, in bounded memory. Create it with NewRecord. It is
// safe for concurrent use.
type Record struct {
	out io.Writer

	mu    sync.Mutex
	lines []telemetry.DecisionLine // a ring: next is the oldest line if it is full
	next  int
	names map[string]string // hash: subject
	hash  telemetry.SubjectHash
}

// NewRecord returns a Record that passes everything written to it on to out.
func NewRecord(out io.Writer) *Record { return &Record{out: out, names: map[string]string{}} }

// Write implements io.Writer. Each call has one line of the log of a function. It ignores text before the first brace,
// such as the name of an environment.
func (r *Record) Write(line []byte) (int, error) {
	var l telemetry.DecisionLine
	if start := bytes.IndexByte(line, '{'); start >= 0 && json.Unmarshal(line[start:], &l) == nil && (l.Kind == telemetry.LineRefused ||
		l.Kind == telemetry.LineShadowed) {
		r.keep(l)
	}
	return r.out.Write(line)
}

func (r *Record) keep(l telemetry.DecisionLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < maxLines {
		r.lines = append(r.lines, l)
		return
	}
	r.lines[r.next] = l
	r.next = (r.next + 1) % maxLines
}

// Hash returns a hash with the same results as hash, for the functions of the gateway. The Record remembers the names of
// the callers that it hashes. Call it before the first question.
func (r *Record) Hash(hash telemetry.SubjectHash) telemetry.SubjectHash {
	r.hash = hash
	return r.HashOf
}

// HashOf returns the hash of a subject, and remembers the name of the subject.
func (r *Record) HashOf(s limiter.Subject) string {
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
func (r *Record) forget() {
	named := map[string]bool{}
	for i := range r.lines {
		named[r.lines[i].Subject] = true
	}
	maps.DeleteFunc(r.names, func(hashed, _ string) bool { return !named[hashed] || len(named) >= maxNames })
}

// answer returns the refusals in lines of a kind since from. subject is the hash of a caller; "" means every caller. The
// answer has at most most rows.
func (r *Record) answer(kind, subject string, from, to time.Time, most int) Refusals {
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
