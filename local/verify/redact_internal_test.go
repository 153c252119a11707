package verify

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// private has a value of each kind that must not be in a report.
var private = []string{
	"123456789012", "1234-5678-9012", "1234 5678 9012", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
	"a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com", "a1b2c3d4e5", "weir_live_9f8e7d6c5b4a", "203.0.113.77", "2001:db8::8a2e:370:7334", "::ffff:192.0.2.9",
	"02:42:ac:11:00:02", "02-42-ac-11-00-02", "bob.smith@corp.example", "bobsmith", "ip-10-1-2-3.ec2.internal", "/home/bobsmith/work", `C:\Users\bobsmith`, "/Users/bobsmith/weir",
	"c6af9ac6-7b61-11e6-9a41-93e8deadbeef", "1-5759e988-bd862e3fe1be46a994272793", "JwT0kEnIdQx=", "Überzweck", "秘密株式会社", "AROAEXAMPLEID:session-of-bobsmith",
	"weir-acmecorp-limitscounters-1PQX7", "9f8e7d6c5b4a39281706", "٠١٢٣٤٥٦٧٨٩", "acme\u200bcorp", "123h456h789h012h",
}

// encodings are the forms in which a value can be in an answer.
var encodings = map[string]func(string) string{
	"plain":   func(v string) string { return v },
	"percent": url.QueryEscape,
	"all bytes in percent": func(v string) string {
		var b strings.Builder
		for _, c := range []byte(v) {
			fmt.Fprintf(&b, "%%%02x", c)
		}
		return b.String()
	},
	"twice in percent": func(v string) string { return url.QueryEscape(url.QueryEscape(v)) },
	"JSON": func(v string) string {
		var b strings.Builder
		for _, c := range v {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return b.String()
	},
	"HTML":   func(v string) string { return "&#" + fmt.Sprint(int(v[0])) + ";" + html.EscapeString(v[1:]) },
	"base64": func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	"hex":    func(v string) string { return hex.EncodeToString([]byte(v)) },
	"JWT": func(v string) string {
		claims, _ := json.Marshal(map[string]string{"sub": v})
		return "eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString(claims) + ".c2lnbmF0dXJl"
	},
}

// places are the texts that contain a value.
var places = []string{
	"%s", "X-Request-Id: %s", `"search";q=%s;w=60`, `{"message": "%s"}`, "User: arn:aws:iam::%s is not authorized to perform: lambda:GetFunction",
	"dial tcp: lookup %s: no such host", "https://%s/dev/api/v1/search", "open %s: permission denied", "Authorization: Bearer %s", "1%s", "a%s", "%s0", "limit %s:12:", "\x00%s\x1b[31m", "arn:aws:%s:", "%s.%[1]s", "1.2.%s", "=%s=",
}

func TestRedactor_text_private(t *testing.T) {
	r := newRedactor("The claim of a row.")
	for _, value := range private {
		for encoding, encode := range encodings {
			for _, place := range places {
				text := fmt.Sprintf(place, encode(value))
				if got := r.text(text); strings.Contains(got, value) || strings.Contains(got, encode(value)) {
					t.Errorf("%s, %s: %q: got %q, want no %q", value, encoding, text, got, value)
				}
			}
		}
	}
}

// The values that explain a failure remain.
func TestRedactor_text_public(t *testing.T) {
	r := newRedactor("the endpoint /api/v1/search")
	for text, want := range map[string]string{
		"HTTP/1.1 429 Too Many Requests":                                     "HTTP/1.1 429 Too Many Requests",
		"RateLimit-Policy: \"search\";q=100;w=60":                            "RateLimit-Policy: \"search\";q=100;w=60",
		"X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0":                    "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0",
		`{"error":"rate_limit_exceeded","limit":100}`:                        `{"error":"rate_limit_exceeded","limit":100}`,
		"arn:aws:iam::123456789012:user/bobsmith is not authorized":          "arn:aws:iam[…]user/[…] is not authorized",
		"RestLimiter56D3A9AF.AuthorizerResultTtlInSeconds: got 300, want 0":  "[…].AuthorizerResultTtlInSeconds: got 300, want 0",
		"the limit is used up; admitted after 1s or 1m30s":                   "the limit is used up; admitted after 1s or 1m30s",
		"https://a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com/dev":      "https://[…]/[…]",
		"url: https://api.store.app:443/account":                             "url: https://[…]/account",
		"GET /api/v1/search: got 403, want 429":                              "GET /api/v1/search: got 403, want 429",
		"the credentials of 203.0.113.77 and 2001:db8::1 at [::1]:8080 fail": "the credentials of […] and […] at [[…]]:8080 fail",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// A private value cannot remain, whatever surrounds it.
func FuzzRedactor_text(f *testing.F) {
	r := newRedactor()
	for _, place := range places {
		before, after, _ := strings.Cut(place, "%s")
		f.Add(before, after, uint8(0))
	}
	f.Add("%", "%41", uint8(3))
	f.Add("\\u00", "&amp;", uint8(10))
	f.Fuzz(func(t *testing.T, before, after string, n uint8) {
		value := private[int(n)%len(private)]
		got := r.text(before + value + after)
		if strings.Contains(got, value) && !strings.Contains(before+after, value) {
			t.Errorf("%q: got %q, want no %q", before+value+after, got, value)
		}
		if again := r.text(got); strings.Contains(again, value) {
			t.Errorf("twice: got %q, want no %q", again, value)
		}
	})
}
