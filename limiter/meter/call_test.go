package meter_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/meter"
)

func TestReadCall(t *testing.T) {
	json := http.Header{"Content-Type": {"application/json"}}
	long := strings.Repeat("u", 5000)
	for body, want := range map[string]meter.Call{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"name":"x"},"name":"search"}}`: {"tools/call", "search"},
		`{"method":"prompts\/get","params":{"na\u006de":"r\u00e9sum\u00e9","uri":"u"}}`:                      {"prompts/get", "résumé"},
		`{"method":"resources/read","params":{"uri":"` + long + `","name":"n"}}`:                             {"resources/read", long},
		`{"method":"initialize","params":{"name":"x"}}`:                                                      {"initialize", ""},
		`{"method":"tasks/get","params":{"taskId":"t","name":"n"}}`:                                          {"tasks/get", "t"},
		`{"method":"tools/call"}`:     {"tools/call", ""},
		`{"id":1,"result":{}}`:        {},
		`{"id":1,"error":{"code":1}}`: {},
	} {
		if got, err := meter.ReadCall(json, []byte(body)); err != nil || got != want {
			t.Errorf("%.200s: got %.99q, %v; want %.99q", body, got, err, want)
		}
	}
	for _, body := range []string{
		"", "x", "1", `[{"method":"tools/call"}]`, `{"id":1}`, `{"method":1}`, `{"method":"a","method":"b"}`, `{"method":"a","Method":"b"}`,
		`{"method":"a","params":{"name":"b","NAME":"c"}}`, `{"method":"a","params":{"name":"b"},"params":{"name":"c"}}`,
		`{"method":"a","params":[]}`,
		`{"method":"a","params":{"name":1}}`, "{\"method\":\"\xff\"}", `{"method":"a"} {"method":"b"}`, `{"meth\u006fd":"a","method":"b"}`,
		`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `,"method":"a","method":"b"}`, `{"method":"a","params":{"Uri":"b"}}`,
		`{"method":"a","params":{"taskid":"b"}}`,
	} {
		if got, err := meter.ReadCall(json, []byte(body)); err == nil {
			t.Errorf("%.99s: got %q, want an error", body, got)
		}
	}
	for _, h := range []http.Header{{"Content-Type": {"text/plain"}}, {"Content-Encoding": {"gzip"}},
		{"Content-Type": {"application/json; charset=utf-16"}}} {
		if _, err := meter.ReadCall(h, []byte(`{"method":"a"}`)); err == nil {
			t.Errorf("%v: got no error", h)
		}
	}
}
