package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzParseAuthorization searches for an authorizer response that crashes the parser, or that allows
// a request without an Allow statement.
func FuzzParseAuthorization(f *testing.F) {
	const arn = "arn:aws:execute-api:us-east-1:123456789012:a/test/GET/x"
	for _, answer := range []string{
		`{"principalId":"u","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":"execute-api:Invoke","Effect":"Allow","Resource":"arn:aws:execute-api:*/test/*"}]},"context":{"a":"b","n":1.0e9,"t":true}}`,
		`{"principalId":"u","policyDocument":{"Statement":{"Action":["*"],"Effect":"Deny","Resource":["*"]}}}`, `{"principalId":null}`, `{"principalId":"u","policyDocument":{"Statement":[]},"context":{"a":[]}}`,
		`{"principalId":"u","policyDocument":{"Statement":[{"Action":"` + strings.Repeat("*a", 50) + `","Effect":"Allow","Resource":"*","Condition":{}}]}}`,
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		a, err := parseAuthorization(payload)
		if err != nil {
			return
		}
		if !json.Valid(payload) || len(a.policy.Statement) == 0 {
			t.Fatalf("payload %q: got no error, want a rejection", payload)
		}
		allowing := false
		for _, s := range a.policy.Statement {
			allowing = allowing || s.Effect == "Allow"
		}
		if a.policy.evaluate(arn) == allow && !allowing {
			t.Errorf("policy %+v: got allowed, want denied", a.policy)
		}
	})
}

// FuzzParseResponse searches for a function response that crashes the parser of a REST API or an
// HTTP API.
func FuzzParseResponse(f *testing.F) {
	for _, answer := range []string{
		`{"statusCode":200,"headers":{"A":"b","Set-Cookie":true},"multiValueHeaders":{"a":["c"]},"body":"x","isBase64Encoded":false}`, `{"statusCode":"404"}`, `{"statusCode":600}`, `"text"`, `[1]`, `null`, `{"cookies":["a=1"],"statusCode":200}`, `{"StatusCode":200}`, ``,
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if r, err := parseProxyResponse(payload); err == nil {
			if !json.Valid(payload) || r.StatusCode < 200 || r.StatusCode > 599 {
				t.Errorf("%q: got %+v, want valid JSON and a status from 200 to 599", payload, r)
			}
			for name := range r.header() {
				if contains(remapped, name) || contains(droppedFromResponse, name) {
					t.Errorf("%q: got the header %q in the response, want none", payload, name)
				}
			}
		}
		if r, err := parseHTTPResponse(payload); err == nil && (r.StatusCode < 200 || r.StatusCode > 599 || len(r.content) > len(payload)*3) {
			t.Errorf("%q: got %+v, want a status from 200 to 599 and a body of at most %d bytes", payload, r, len(payload)*3)
		}
	})
}
