package runtimeproxy_test

import (
	"io"
	"strings"
	"testing"
)

// BenchmarkProxy measures an invocation of a function that answers at once, with and without the proxy. The
// store is in memory.
func BenchmarkProxy(b *testing.B) {
	for name, size := range map[string]int{"1kB": 1000, "5MB": 5_000_000} {
		body := strings.Repeat("x", size)
		payload := strings.Replace(string(sample(b, "http-api-anonymous.json")), `"isBase64Encoded"`, `"body":"`+body+`","isBase64Encoded"`, 1)
		answer := `{"statusCode":200,"headers":{"content-type":"text/plain"},"body":"` + body + `"}`
		e := environment(b, `{"rules":[{"endpoint":"*","limits":{"global":{"name":"many","requests":1000000000,"window":"1s","per":["ip"]}}}]}`, io.Discard)
		b.Run(name+"/with", func(b *testing.B) { invoke(b, newLayered(b, e, false), payload, answer) })
		b.Run(name+"/without", func(b *testing.B) {
			l := newLayered(b, e, false)
			l.server.URL = l.URL
			invoke(b, l, payload, answer)
		})
	}
}

func invoke(b *testing.B, l *layered, payload, answer string) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		next := l.request()
		l.events <- event{payload: []byte(payload)}
		l.respond((<-next).id, "response", answer, nil)
		<-l.answers
		<-l.requests
	}
}
