package lambdahttp_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
	"weak"

	"github.com/weir-limits/weir/functions/lambdahttp"
)

const countingBytes = `{"rules":[{"endpoint":"*","limits":{"global":{"name":"bytes","requests":1000000000,"window":"1h","reserve":1,` +
	`"count":"bytes","per":["ip"]}}}]}`

// The event is free when the function has it, and the largest answers need few copies.
func TestLayer_memory(t *testing.T) {
	const size, copies = 5_900_000, 8
	e := limitedBy(t, countingBytes)
	for name, answer := range map[string]string{
		"text":     `{"statusCode":200,"body":"` + strings.Repeat("x", size) + `"}`,
		"escapes":  `{"statusCode":200,"body":"` + strings.Repeat(`\"\u00e4`, size/8) + `"}`,
		"base64":   `{"statusCode":200,"isBase64Encoded":true,"body":"` + strings.Repeat("QUJD", size/4) + `"}`,
		"inferred": `"` + strings.Repeat("x", size) + `"`,
		"object":   `{"a":"` + strings.Repeat(`x`, size) + `"}`,
	} {
		payload := changed(t, sampleEvent(t, "http-api-anonymous.json"), `"isBase64Encoded"`, `"body":"`+strings.Repeat("x", size)+
			`","isBase64Encoded"`)
		event, answered := weak.Make(&payload[0]), []byte(answer)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := lambdahttp.NewLayer(e).Invoke(ctx, payload, func(a *lambdahttp.Admitted) error {
			a.Event = nil
			payload = nil
			runtime.GC()
			if event.Value() != nil {
				t.Errorf("%s: got the event in use, want it free", name)
			}
			a.Answered(answered)
			return nil
		})
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; err != nil || allocated > copies*size {
			t.Errorf("%s: got %d bytes allocated, %v, want at most %d", name, allocated, err, copies*size)
		}
	}
}

// The layer counts the bytes that the client gets.
func FuzzLayer_bytes(f *testing.F) {
	for _, text := range []string{"", "abc", `a\"\\\/b`, `\u0041\u00e4\u20ac\ud83d\ude00\n`, `QUJD`, `QUI=`, `QQ==`, `QUJD\r\nQUI\u003d`,
		"ä€😀", `\\u0041`} {
		f.Add(text, false)
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, encoded bool) {
		raw := `"` + text + `"`
		var want string
		if len(text) > 1000 || !utf8.ValidString(text) || json.Unmarshal([]byte(raw), &want) != nil ||
			strings.ContainsRune(want, utf8.RuneError) {
			t.Skip()
		}
		if encoded {
			decoded, err := base64.StdEncoding.DecodeString(want)
			if err != nil {
				t.Skip()
			}
			want = string(decoded)
		}
		answers := []string{`{"statusCode":200,"isBase64Encoded":` + strconv.FormatBool(encoded) + `,"body":` + raw + `}`}
		if !encoded {
			answers = append(answers, raw)
		}
		for _, answer := range answers {
			e := limitedBy(t, countingBytes)
			answered(t, e, sampleEvent(t, "http-api-anonymous.json"), answer)
			if got := usedBy(t, e); got != strconv.Itoa(len(want)) {
				t.Errorf("%s: got %s bytes, want %d", bytes.TrimSpace([]byte(answer)), got, len(want))
			}
		}
	})
}
