package meter

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Answer reads the numbers of sources from the body of an answer. It is not safe for concurrent use.
type Answer struct {
	scanner scanner
	write   func([]byte) // nil: the body is not read
	stop    func()       // ends write; may be nil
	problem string       // why the body is not read
	repeats bool         // see Repeats

	values  []number // the last numbers of complete texts, by path
	fresh   []number // those of the text that is being read
	touched Set      // paths in fresh
	order   int64    // of the last number
}

// number is a number in a body.
type number struct {
	value int64 // bad if it is negative
	order int64 // 0 if there is no number
}

// bad stands for a value that is no cost.
const bad = -1

// NewAnswer returns an Answer that finds the fields of sources, which have the same Paths.
func NewAnswer(sources ...*Source) *Answer {
	a, paths := &Answer{problem: "no body"}, sources[0].Paths
	for _, s := range sources {
		for _, field := range s.Fields {
			a.scanner.wanted |= field
		}
	}
	a.scanner.names, a.scanner.found, a.scanner.ended = paths.names, a.found, a.ended
	all := make([]number, 2*len(paths.names))
	a.values, a.fresh = all[:len(paths.names)], all[len(paths.names):]
	return a
}

// Begin begins the body of an answer with the header h, and forgets an earlier body.
func (a *Answer) Begin(h http.Header) {
	a.Close()
	clear(a.values)
	a.touched, a.problem = 0, ""
	a.scanner.reset()
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	a.repeats = slices.Contains([]string{"text/event-stream", "application/x-ndjson", "application/jsonl"}, kind)
	switch {
	case h.Get("Content-Type") == "" || err == nil && isJSON(kind):
		a.write = a.scanner.Write
	case kind == "text/event-stream":
		a.write = (&events{scanner: &a.scanner, empty: true}).Write
	default:
		a.problem = fmt.Sprintf("Content-Type: got %.40q, want JSON or text/event-stream", kind)
		return
	}
	switch encoding := strings.ToLower(strings.Join(h["Content-Encoding"], ",")); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		a.inflate(a.write)
	default:
		a.write, a.problem = nil, fmt.Sprintf("Content-Encoding: got %.40q, want gzip or none", encoding)
	}
}

// isJSON reports whether a media type is JSON, or one JSON text a line.
func isJSON(kind string) bool {
	switch kind {
	case "application/json", "application/x-ndjson", "application/jsonl", "text/json":
		return true
	}
	return strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// Write reads the next bytes of the body. It never fails.
func (a *Answer) Write(p []byte) (int, error) {
	if a.write != nil && len(p) > 0 {
		a.write(p)
	}
	return len(p), nil
}

// Close ends the body.
func (a *Answer) Close() {
	if a.stop != nil {
		a.stop()
	}
	a.write, a.stop = nil, nil
}

// maxInflated bounds the bytes that gzip may produce.
const maxInflated = 64 << 20

// inflate makes a.write unpack gzip before write. The reader of gzip asks for bytes, but this package gets them: the reader
// is a coroutine that waits when it has read a piece.
func (a *Answer) inflate(write func([]byte)) {
	var piece []byte
	next, stop := iter.Pull(func(wait func(struct{}) bool) {
		source := readFunc(func(b []byte) (int, error) {
			for len(piece) == 0 {
				if !wait(struct{}{}) {
					return 0, io.EOF
				}
			}
			n := copy(b, piece)
			piece = piece[n:]
			return n, nil
		})
		z, err := gzip.NewReader(source)
		buffer, total := make([]byte, 4096), 0
		for err == nil && total <= maxInflated {
			var n int
			n, err = z.Read(buffer)
			total += n
			write(buffer[:n])
		}
		if !errors.Is(err, io.EOF) {
			a.problem = fmt.Sprintf("gzip: broken, or more than %d bytes", maxInflated)
		}
	})
	a.write, a.stop = func(p []byte) { piece = p; next() }, stop
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// found keeps a number of the text that is being read. A null has no meaning: the chunks of a stream have it before the last.
func (a *Answer) found(at Set, token []byte) {
	value, ok := int64(bad), true
	if token != nil {
		value, ok = parse(token)
	}
	if !ok {
		return
	}
	a.order++
	for i := range at.each {
		a.fresh[i] = number{value, a.order}
	}
	a.touched |= at
}

// parse returns the whole number in a token, or bad. ok is false if the token is no number.
func parse(token []byte) (n int64, ok bool) {
	if c := token[0]; c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	n, err := strconv.ParseInt(string(token), 10, 64)
	if err != nil { // 12.0 and 1e3 are whole numbers
		f, err := strconv.ParseFloat(string(token), 64)
		if err != nil || f < 0 || f > Most || f != float64(int64(f)) {
			return bad, true
		}
		n = int64(f)
	}
	if n < 0 || n > Most {
		n = bad
	}
	return n, true
}

// ended keeps the numbers of a complete text, and forgets those of another one.
func (a *Answer) ended(complete bool) {
	for i := range a.touched.each {
		if complete {
			a.values[i] = a.fresh[i]
		}
	}
	a.touched = 0
}

// Cost returns the cost in the body for a source. complete is false if one of its fields was not found. If the body has no
// cost, the error is the reason.
func (a *Answer) Cost(s *Source, r *Request, parameter string) (cost int64, complete bool, err error) {
	if a.problem != "" {
		return 0, false, errors.New(a.problem)
	}
	counts, found := make([]int64, len(s.Fields)), 0
	for i, field := range s.Fields {
		switch last := a.last(field); {
		case last.order == 0:
		case last.value == bad:
			return 0, false, fmt.Errorf("got a number that is no cost, want a whole number from 0 to %d", Most)
		default:
			counts[i] = last.value
			found++
		}
	}
	if found == 0 {
		return 0, false, errors.New(`got none of the fields of "from"`)
	}
	for weights := range s.choose(r, parameter) {
		sum := int64(0)
		for i, n := range counts {
			sum = min(Most, sum+product(n, weights[i]))
		}
		cost = max(cost, sum)
	}
	return cost, found == len(s.Fields), nil
}

// Repeats reports whether the body can have several texts, such as events, of which a later one can have a number again.
func (a *Answer) Repeats() bool { return a.repeats }

// last returns the last number at one of the paths.
func (a *Answer) last(of Set) (last number) {
	for i := range of.each {
		if a.values[i].order > last.order {
			last = a.values[i]
		}
	}
	return last
}
