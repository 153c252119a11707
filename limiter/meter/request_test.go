package meter_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/meter"
)

// priced returns a source with prices by model, whose dearest model has the weights 5 and 20.
func priced(t testing.TB) *meter.Source {
	s := source(t, "usage.input", "usage.output")
	s.Weights = map[string][]int64{"small": {1, 4}, "large": {5, 20}, meter.OtherValues: {2, 8}}
	s.By, s.Reserve = path(t, s, "model"), path(t, s, "max_tokens|limits.max")
	s.Default, s.MostReserve = 100, 1000
	return s
}

func path(t testing.TB, s *meter.Source, text string) meter.Set {
	t.Helper()
	set, err := s.Paths.Add(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The reserve is the number of tokens times the highest price of the model. A body that a back end can read in another way costs
// the most, or is refused.
func TestReadRequest(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, body string
		header     http.Header
		want       int64 // 0 if the body is ambiguous
	}{
		{"number and model", `{"model":"small","max_tokens":50}`, nil, 50 * 4},
		{"other model", `{"model":"new","max_tokens":50}`, nil, 50 * 8},
		{"number as a model", `{"model":5,"max_tokens":50}`, nil, 50 * 8},
		{"no model", `{"max_tokens":50}`, nil, 50 * 8},
		{"long model", `{"model":"` + long + `","max_tokens":50}`, nil, 50 * 8},
		{"escaped", `{"mod\u0065l":"sm\u0061ll","max_tokens":5e1}`, nil, 50 * 4},
		{"no number", `{"model":"small"}`, nil, 100 * 4},
		{"null", `{"model":"small","max_tokens":null}`, nil, 100 * 4},
		{"no body", ``, nil, 100 * 8},
		{"the larger number", `{"model":"small","max_tokens":50,"limits":{"max":60}}`, nil, 60 * 4},
		{"too large", `{"model":"small","max_tokens":1001}`, nil, 1000 * 4},
		{"zero", `{"model":"small","max_tokens":0}`, nil, 1000 * 4},
		{"negative", `{"model":"small","max_tokens":-1}`, nil, 1000 * 4},
		{"text", `{"model":"small","max_tokens":"50"}`, nil, 1000 * 4},
		{"list", `{"model":"small","max_tokens":[50]}`, nil, 1000 * 4},
		{"long number", `{"model":"small","max_tokens":1` + strings.Repeat("0", 1000) + `}`, nil, 1000 * 4},
		{"repeated number", `{"max_tokens":50,"max_tokens":50}`, nil, 0},
		{"repeated model", `{"model":"small","a":[],"model":"large"}`, nil, 0},
		{"repeated by escapes", `{"model":"small","\u006dodel":"large"}`, nil, 0},
		{"repeated above", `{"limits":{"max":50},"limits":5}`, nil, 0},
		{"other case", `{"Model":"small"}`, nil, 0},
		{"folded", "{\"limits\":{\"Max\":1}}", nil, 0},
		{"repeated elsewhere", `{"model":"small","max_tokens":50,"a":{"model":"x"},"b":[{"model":"x"},{"model":"x"}]}`, nil, 50 * 4},
		{"no JSON", `{"model":"small",}`, nil, 1000 * 20},
		{"broken UTF-8", "{\"model\":\"small\",\"a\":\"\xff\"}", nil, 1000 * 20},
		{"deep", `{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"model":"small"}`, nil, 1000 * 20},
		{"form", `{"model":"small"}`, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 1000 * 20},
		{"two types", `{"model":"small"}`, http.Header{"Content-Type": {"application/json", "text/plain"}}, 1000 * 20},
		{"encoding", `{"model":"small"}`, http.Header{"Content-Encoding": {"gzip"}}, 1000 * 20},
		{"charset", `{"model":"small"}`, http.Header{"Content-Type": {"application/json; charset=utf-7"}}, 1000 * 20},
		{"UTF-8", `{"model":"small"}`, http.Header{"Content-Type": {"application/json; charset=UTF-8"}}, 100 * 4},
	} {
		s := priced(t)
		r, err := meter.ReadRequest(c.header, []byte(c.body), s)
		if got := r.Reserve(s, ""); (err != nil) != (c.want == 0) || err == nil && got != c.want {
			t.Errorf("%s: got the reserve %d, %v, want %d", c.name, got, err, c.want)
		}
	}
}

// The cost follows the price of the model, or of the path parameter. Without a body that can be read, it is that of the dearest model.
func TestCost_prices(t *testing.T) {
	for _, c := range []struct {
		name, body, parameter string
		want                  int64
	}{
		{"model", `{"model":"small"}`, "", 3*1 + 2*4},
		{"other model", `{"model":"Small"}`, "", 3*2 + 2*8},
		{"unread", `-`, "", 3*5 + 2*20},
		{"parameter", "", "large", 3*5 + 2*20},
		{"other parameter", "", "new", 3*2 + 2*8},
	} {
		s := priced(t)
		if c.parameter != "" {
			s.By, s.Parameter = 0, "model"
		}
		r, err := meter.ReadRequest(nil, []byte(c.body), s)
		a := meter.NewAnswer(s)
		a.Begin(nil)
		_, _ = a.Write([]byte(`{"usage":{"input":3,"output":2}}`))
		if got, _, failed := a.Cost(s, r, c.parameter); got != c.want || err != nil || failed != nil {
			t.Errorf("%s: got %d, %v, %v, want %d", c.name, got, err, failed, c.want)
		}
	}
	if got := priced(t).Largest(); got != 1000*20 {
		t.Errorf("largest reserve: got %d, want 20000", got)
	}
}

// A path has up to eight names, and a document up to 64 paths.
func TestPaths(t *testing.T) {
	for text, ok := range map[string]bool{
		"a": true, "a.b|c": true, "a.b.c.d.e.f.g.h": true, "$x-y_Z": true, "a.b.c.d.e.f.g.h.i": false, "": false, "a.": false, "a..b": false,
		"a|": false, "a b": false, "é": false, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
	} {
		if _, err := new(meter.Paths).Add(text); (err == nil) != ok {
			t.Errorf("%q: got error %v, want it accepted: %t", text, err, ok)
		}
	}
	var p meter.Paths
	for i := range meter.MaxPaths + 1 {
		_, err := p.Add(strings.Repeat("a", 1+i%60) + strings.Repeat(".b", i/60))
		if (err == nil) != (i < meter.MaxPaths) {
			t.Errorf("path %d: got error %v", i+1, err)
		}
	}
	if set, err := p.Add("a|aa|a"); set != 3 || err != nil {
		t.Errorf("known paths: got %b, %v, want 11", set, err)
	}
}
