package boot_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
)

// cloudFormation starts a server that keeps the last answer to an event of CloudFormation.
func cloudFormation(t *testing.T) (*httptest.Server, *cfn.Response) {
	t.Helper()
	var answer cfn.Response
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		answer = cfn.Response{}
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server, &answer
}

// The function publisher waits for a new permission, and answers CloudFormation also after a failure. If the answer
// is lost, Lambda repeats the event; the error does not contain the URL, which is a credential.
func TestPublisher(t *testing.T) {
	var calls atomic.Int64
	table := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		failure := ""
		if calls.Add(1) == 1 {
			failure = "com.amazon.coral.service#AccessDeniedException"
		} else if strings.Contains(string(body), "nowhere") {
			failure = "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"
		}
		if failure != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"`+failure+`"}`)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer table.Close()
	publish := storetest.Must(boot.OpenPublisher(t.Context(), lookup("DYNAMODB_ENDPOINT="+table.URL, "WEIR_LOCAL=true"), time.Now))
	answers, answer := cloudFormation(t)
	event := func(name string) cfn.Event {
		return cfn.Event{RequestType: cfn.RequestUpdate, RequestID: "r", ResponseURL: answers.URL + "/?X-Amz-Signature=secret",
			PhysicalResourceID: "deployedrules#test", ResourceProperties: map[string]any{
				contract.PropertyTable: name, contract.PropertyNamespace: "test", contract.PropertyDocument: packed(t, oneRule),
			}}
	}
	if err := publish(t.Context(), event("records")); err != nil || answer.Status != cfn.StatusSuccess || answer.RequestID != "r" ||
		calls.Load() != 2 {
		t.Errorf("denied once: got answer %+v after %d calls, error %v, want SUCCESS after 2", answer, calls.Load(), err)
	}
	if err := publish(t.Context(), event("nowhere")); err != nil || answer.Status != cfn.StatusFailed || !strings.HasPrefix(answer.Reason,
		"records table: ") || answer.PhysicalResourceID != "deployedrules#test" {
		t.Errorf("no table: got answer %+v, error %v, want FAILED with a reason and the same id", answer, err)
	}
	answers.Close()
	if err := publish(t.Context(), event("records")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("lost answer: got error %v, want one without the signature", err)
	}
	if _, err := boot.OpenPublisher(t.Context(), lookup("WEIR_LOCAL=perhaps"), time.Now); err == nil || !strings.HasPrefix(err.Error(),
		"WEIR_LOCAL: ") {
		t.Errorf("variables: got error %v, want one about WEIR_LOCAL", err)
	}
}
