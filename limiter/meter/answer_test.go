package meter_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/meter"
)

// source returns a source with a field of weight 1 for each of the texts, then 10, 100 and so on.
func source(t testing.TB, fields ...string) *meter.Source {
	t.Helper()
	s, weights, weight := &meter.Source{Paths: &meter.Paths{}}, []int64{}, int64(1)
	for _, text := range fields {
		field, err := s.Paths.Add(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Fields, weights = append(s.Fields, field), append(weights, weight)
		weight *= 1000
	}
	s.Weights = map[string][]int64{meter.OtherValues: weights}
	return s
}

const (
	asJSON   = "application/json; charset=utf-8"
	asEvents = "text/event-stream"

	openAIChat = `data: {"id":"c1","choices":[{"delta":{"content":"\"usage\":{\"total_tokens\":9}"}}],"usage":null}

data: {"id":"c1","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46}}

data: [DONE]

`
	openAIResponses = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\r\n\r\n" +
		"event: response.completed\r\ndata: {\"type\":\"response.completed\",\r\ndata: \"response\":{\"usage\":{\"input_tokens\":12,\r\n" +
		"data:\"output_tokens\":34}}}\r\n\r\n"
	anthropic = `event: message_start
data: {"type":"message_start","message":{"content":[],"usage":{"input_tokens":12,"output_tokens":1}}}

: a comment
event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30}}

event: message_delta
data: {"type":"message_delta","usage":{"output_tokens":34}}

`
	bedrock = `{"output":{"message":{"content":[{"toolUse":{"input":{"usage":{"inputTokens":9}}}}]}},` +
		`"usage":{"inputTokens":12,"outputTokens":34,"totalTokens":46},"metrics":{"latencyMs":1275}}`
)

// A body gives the same cost as a whole, in single bytes, and in gzip. Of each field the last value of a complete text counts.
func TestAnswer(t *testing.T) {
	input := "usage.input_tokens|message.usage.input_tokens|response.usage.input_tokens"
	output := "usage.output_tokens|response.usage.output_tokens"
	for _, c := range []struct {
		name, kind, body string
		fields           []string
		want             int64
		part             bool   // a field is not found
		problem          string // of the error
	}{
		{"OpenAI, chat", asEvents, openAIChat, []string{"usage.prompt_tokens", "usage.completion_tokens"}, 34_012, false, ""},
		{"OpenAI, chat without usage", asEvents, "data: {\"usage\":null}\n\ndata: [DONE]\n\n", []string{"usage.total_tokens"}, 0, false,
			"none of"},
		{"OpenAI, responses", asEvents, openAIResponses, []string{input, output}, 34_012, false, ""},
		{"Anthropic", asEvents, anthropic, []string{input, output}, 34_012, false, ""},
		{"Anthropic, cut", asEvents, anthropic[:150], []string{input, output}, 12, true, ""},
		{"Bedrock", asJSON, bedrock, []string{"usage.inputTokens", "usage.outputTokens"}, 34_012, false, ""},
		{"lines", "application/x-ndjson", "{\"done\":false}\n{\"done\":true,\"eval_count\":7}\n", []string{"eval_count"}, 7, false, ""},
		{"no type", "", `{"a":7}`, []string{"a"}, 7, false, ""},
		{"subtype", "application/vnd.api+json", `{"a":7}`, []string{"a"}, 7, false, ""},
		{"no JSON", "text/html", `{"a":7}`, []string{"a"}, 0, false, `got "text/html"`},
		{"carriage returns", asEvents, "data:{\"a\":7}\r\rdata:{\"a\":8}\r\r", []string{"a"}, 8, false, ""},
		{"byte order marks", asEvents, "\ufeffdata: {\"a\":7}\n\n\ufeffdata: {\"a\":8}\n\n", []string{"a"}, 7, false, ""},
		{"other field", asEvents, "data: {\"a\":7}\n\ndatum: {\"a\":8}\n\ndata\n\n\ufeffdata: {\"a\":9}\n\n", []string{"a"}, 7, false, ""},
		{"broken event", asEvents, "data: {\"a\":7}\n\ndata: ]{\"a\":8}\n\ndata: {\"a\":9}\n\n", []string{"a"}, 9, false, ""},
		{"open event", asEvents, "data: {\"a\":7}\n\ndata: {\"a\":8\n\ndata: {}\n\n", []string{"a"}, 7, false, ""},
		{"repeated", asJSON, `{"a":7,"a":8}`, []string{"a"}, 8, false, ""},
		{"escapes", asJSON, `{"\u0061":7,"b\\":"\\\"{","c":{"a\"":8}}`, []string{"a"}, 7, false, ""},
		{"below", asJSON, `{"x":{"a":1},"y":[{"a":2}],"a":{"b":7},"z":{"a":{"b":3}}}`, []string{"a.b"}, 7, false, ""},
		{"above", asJSON, `{"a":{"b":{"c":7}}}`, []string{"a.b"}, 0, false, "no cost"},
		{"list", asJSON, `[{"a":7}]`, []string{"a"}, 0, false, "none of"},
		{"brackets", asJSON, `{"x":[}],"a":7}`, []string{"a"}, 0, false, "none of"},
		{"cut", asJSON, `{"a":7`, []string{"a"}, 0, false, "none of"},
		{"float", asJSON, `{"a":7e1}`, []string{"a"}, 70, false, ""},
		{"fraction", asJSON, `{"a":7.5}`, []string{"a"}, 0, false, "no cost"},
		{"negative", asJSON, `{"a":-7}`, []string{"a"}, 0, false, "no cost"},
		{"text", asJSON, `{"a":"7"}`, []string{"a"}, 0, false, "none of"},
		{"above the most", asJSON, `{"a":1e300}`, []string{"a"}, 0, false, "no cost"},
		{"long number", asJSON, `{"a":1` + strings.Repeat("0", 1000) + `}`, []string{"a"}, 0, false, "no cost"},
		{"large sum", asJSON, `{"a":1,"b":999999999999999}`, []string{"a", "b"}, meter.Most, false, ""},
		{"broken UTF-8", asJSON, "{\"\xff\":\"\xc3(\",\"a\":7}", []string{"a"}, 7, false, ""},
		{"as deep as allowed", asJSON, strings.Repeat(`{"x":`, 511) + "[]" + strings.Repeat("}", 510) + `,"a":7}`, []string{"a"}, 7, false, ""},
		{"deeper", asJSON, strings.Repeat(`{"x":`, 512) + "[]" + strings.Repeat("}", 511) + `,"a":7}`, []string{"a"}, 0, false, "none of"},
	} {
		s := source(t, c.fields...)
		a := meter.NewAnswer(s)
		for _, sent := range []struct {
			how, encoding string
			pieces        [][]byte
		}{
			{"whole", "", [][]byte{[]byte(c.body)}},
			{"bytes", "identity", bytes.SplitAfter([]byte(c.body), nil)},
			{"gzip", "gzip", bytes.SplitAfter(zipped(t, c.body), nil)},
			{"zstd", "zstd", [][]byte{[]byte(c.body)}},
		} {
			problem := c.problem
			if sent.encoding == "zstd" && !strings.Contains(problem, "text/html") {
				problem = `Content-Encoding: got "zstd"`
			}
			a.Begin(http.Header{"Content-Type": {c.kind}, "Content-Encoding": {sent.encoding}})
			for _, piece := range sent.pieces {
				_, _ = a.Write(piece)
			}
			a.Close()
			got, complete, err := a.Cost(s, nil, "")
			switch {
			case problem != "":
				if err == nil || !strings.Contains(err.Error(), problem) {
					t.Errorf("%s, %s: got %d, %v, want the error %q", c.name, sent.how, got, err, problem)
				}
			case got != c.want || complete == c.part || err != nil:
				t.Errorf("%s, %s: got %d, complete %t, %v, want %d", c.name, sent.how, got, complete, err, c.want)
			}
		}
	}
}

// zipped returns text in gzip, with a flush in the middle as in a stream.
func zipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		_, err := z.Write([]byte(part))
		if err == nil {
			err = z.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A broken end of gzip is no cost, and no more than 64 MB are unpacked.
func TestAnswer_gzip(t *testing.T) {
	s, whole := source(t, "a"), zipped(t, `{"a":7}`)
	for name, body := range map[string][]byte{
		"no gzip": []byte(`{"a":7}`), "cut": whole[:len(whole)-1], "checksum": append(whole[:len(whole)-1:len(whole)-1], 'x'),
		"bomb": zipped(t, `{"a":7}`+strings.Repeat(" ", 65<<20)),
	} {
		a := meter.NewAnswer(s)
		a.Begin(http.Header{"Content-Encoding": {"gzip"}})
		_, _ = a.Write(body)
		a.Close()
		if got, _, err := a.Cost(s, nil, ""); err == nil {
			t.Errorf("%s: got the cost %d, want an error", name, got)
		}
	}
}

// Neither a million events nor a long body needs memory.
func TestAnswer_memory(t *testing.T) {
	s := source(t, "usage.total_tokens")
	event := []byte(`data: {"` + strings.Repeat("x", 60) + `":[[[{}]]],"usage":{"total_tokens":46,"\u0075":"` + strings.Repeat("y", 60) +
		"\"}}\n\n")
	a := meter.NewAnswer(s)
	a.Begin(http.Header{"Content-Type": {asEvents}})
	_, _ = a.Write(event)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1_000_000 {
		_, _ = a.Write(event)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	got, _, err := a.Cost(s, nil, "")
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 1<<20 || got != 46 || err != nil {
		t.Errorf("got %d, %v and %d bytes of memory, want 46 and less than a megabyte", got, err, kept)
	}
}
