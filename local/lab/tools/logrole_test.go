package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A deployment creates the role for API Gateway's logs only if the account has none.
func TestLogRole(t *testing.T) {
	status, role := http.StatusOK, ""
	account := http.NewServeMux()
	account.HandleFunc("GET /account", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"cloudwatchRoleArn": %q}`, role)
	})
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
		"AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	if code, out, errs := tool(t, "log-role"); code != 0 || out != "-c logRole=true\n" {
		t.Errorf("no role: got exit %d, %q and %q, want the setting", code, out, errs)
	}
	role = "arn:aws:iam::123456789012:role/logs"
	if code, out, errs := tool(t, "log-role"); code != 0 || out != "" {
		t.Errorf("a role: got exit %d, %q and %q, want no setting", code, out, errs)
	}
	status = http.StatusForbidden
	if code, out, _ := tool(t, "log-role"); code != 1 || out != "" {
		t.Errorf("denied: got exit %d and %q, want a failure", code, out)
	}
}
