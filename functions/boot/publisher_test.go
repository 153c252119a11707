package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/edge"
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
	publish := storetest.Must(boot.OpenPublisher(t.Context(), lookup("DYNAMODB_ENDPOINT="+table.URL, "WEIR_LOCAL=true"), boot.Clients{}, slog.New(slog.DiscardHandler), time.Now))
	answers, answer := cloudFormation(t)
	event := func(name string) cfn.Event {
		return cfn.Event{RequestType: cfn.RequestUpdate, RequestID: "r", ResponseURL: answers.URL + "/?X-Amz-Signature=secret", PhysicalResourceID: "deployedrules#test", ResourceProperties: map[string]any{
			contract.PropertyTable: name, contract.PropertyNamespace: "test", contract.PropertyDocument: packed(t, oneRule),
		}}
	}
	if err := publish(t.Context(), event("records")); err != nil || answer.Status != cfn.StatusSuccess || answer.RequestID != "r" || calls.Load() != 2 {
		t.Errorf("denied once: got answer %+v after %d calls, error %v, want SUCCESS after 2", answer, calls.Load(), err)
	}
	if err := publish(t.Context(), event("nowhere")); err != nil || answer.Status != cfn.StatusFailed || !strings.HasPrefix(answer.Reason, "records table: ") || answer.PhysicalResourceID != "deployedrules#test" {
		t.Errorf("no table: got answer %+v, error %v, want FAILED with a reason and the same id", answer, err)
	}
	answers.Close()
	if err := publish(t.Context(), event("records")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("lost answer: got error %v, want one without the signature", err)
	}
	if _, err := boot.OpenPublisher(t.Context(), lookup("WEIR_LOCAL=perhaps"), boot.Clients{}, slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.HasPrefix(err.Error(), "WEIR_LOCAL: ") {
		t.Errorf("variables: got error %v, want one about WEIR_LOCAL", err)
	}
}

// The function returns the secret of the distributions, and CloudFormation hides it. It creates the secret once, also after
// it waited for a new permission. A deletion returns and changes nothing.
func TestPublisher_originSecret(t *testing.T) {
	var item json.RawMessage
	denials := 1
	table := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Item                json.RawMessage
			ConditionExpression string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") {
			t.Errorf("call of the table: got %s, error %v, want PutItem", r.Header.Get("X-Amz-Target"), err)
		}
		if denials > 0 {
			denials--
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#AccessDeniedException"}`)
			return
		}
		if item != nil && strings.HasPrefix(in.ConditionExpression, "attribute_not_exists") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":`+string(item)+`}`)
			return
		}
		item = in.Item
		_, _ = io.WriteString(w, "{}")
	}))
	defer table.Close()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	publish := storetest.Must(boot.OpenPublisher(t.Context(), lookup("DYNAMODB_ENDPOINT="+table.URL, "WEIR_LOCAL=true"), boot.Clients{}, slog.New(slog.DiscardHandler), func() time.Time { return now }))
	answers, answer := cloudFormation(t)
	event := func(kind cfn.RequestType, text string) cfn.Event {
		return cfn.Event{RequestType: kind, RequestID: "r", ResponseURL: answers.URL + "/?X-Amz-Signature=secret", ResourceProperties: map[string]any{
			contract.PropertyTable: "records", contract.PropertyNamespace: "test", contract.PropertyRotation: text,
		}}
	}
	var secrets []string
	for _, kind := range []cfn.RequestType{cfn.RequestCreate, cfn.RequestUpdate, cfn.RequestDelete} {
		if err := publish(t.Context(), event(kind, "")); err != nil || answer.Status != cfn.StatusSuccess || answer.PhysicalResourceID != contract.OriginSecretsKey("test") || !answer.NoEcho {
			t.Errorf("%s: got answer %+v, error %v, want SUCCESS with NoEcho", kind, answer, err)
		}
		secret, _ := answer.Data[contract.AttributeOriginSecret].(string)
		secrets = append(secrets, secret)
	}
	if len(secrets[0]) != 43 || secrets[1] != secrets[0] || secrets[2] != "" {
		t.Errorf("secrets: got lengths %d, %d and %d, want one of 43 characters twice, and none for a deletion", len(secrets[0]), len(secrets[1]), len(secrets[2]))
	}
	binary := func(b byte) map[string][]byte { return map[string][]byte{"B": bytes.Repeat([]byte{b}, 32)} }
	item, _ = json.Marshal(map[string]any{"current": binary(0), "previous": binary(1), "rotated": map[string]string{"S": now.Format(time.RFC3339)}})
	now = now.Add(10 * time.Minute)
	if err := publish(t.Context(), event(cfn.RequestUpdate, "march")); err != nil || answer.Status != cfn.StatusFailed || !strings.Contains(answer.Reason, "want a deployment at 2026-03-04T12:15:00Z or later") || answer.Data != nil {
		t.Errorf("a new text ten minutes after a rotation: got answer %+v, error %v, want FAILED with a time and no secret", answer, err)
	}
	if err := publish(t.Context(), event(cfn.RequestUpdate, "")); err != nil || answer.Status != cfn.StatusSuccess || answer.Data[contract.AttributeOriginSecret] != "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE" {
		t.Errorf("its rollback: got answer %s, error %v, want SUCCESS with the previous secret", answer.Status, err)
	}
	answers.Close()
	if err := publish(t.Context(), event(cfn.RequestUpdate, "")); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("lost answer: got error %v, want one without the signature", err)
	}
}

// A publication ends entries of older rules in the list of the distributions, also if its event is repeated. It succeeds
// without the list, and the log has the reason.
func TestPublisher_list(t *testing.T) {
	var item json.RawMessage
	table := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Item json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if item != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":`+string(item)+`}`)
			return
		}
		item = in.Item
		_, _ = io.WriteString(w, "{}")
	}))
	defer table.Close()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	list := &listed{version: 7}
	var log bytes.Buffer
	variables := lookup("DYNAMODB_ENDPOINT="+table.URL, "WEIR_LOCAL=true", "EDGE_LIST=arn:list", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
	clients := boot.Clients{List: func(config aws.Config, arn string) edge.Store {
		if arn != "arn:list" || config.Retryer().MaxAttempts() != 10 {
			t.Errorf("list: got %s with %d attempts, want 10 for a permission that does not act yet", arn, config.Retryer().MaxAttempts())
		}
		return list
	}}
	publish := storetest.Must(boot.OpenPublisher(t.Context(), variables, clients, slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }))
	answers, answer := cloudFormation(t)
	event := cfn.Event{RequestType: cfn.RequestUpdate, RequestID: "r", ResponseURL: answers.URL, ResourceProperties: map[string]any{
		contract.PropertyTable: "records", contract.PropertyNamespace: "test", contract.PropertyDocument: packed(t, oneRule),
	}}
	for _, step := range []struct {
		down  bool
		want  int64
		lines int
	}{{true, 7, 1}, {false, now.Unix(), 1}, {false, now.Unix(), 1}} { // the last two are repetitions
		list.down = step.down
		if err := publish(t.Context(), event); err != nil || answer.Status != cfn.StatusSuccess || list.version != step.want || strings.Count(log.String(), "level=ERROR") != step.lines {
			t.Errorf("%+v: got error %v, status %s, version %d in the list, log %s; want SUCCESS", step, err, answer.Status, list.version, &log)
		}
	}
	if _, err := boot.OpenPublisher(t.Context(), variables, boot.Clients{}, slog.New(slog.DiscardHandler), time.Now); err == nil || !strings.HasPrefix(err.Error(), "EDGE_LIST: ") {
		t.Errorf("without a client: got error %v, want one about EDGE_LIST", err)
	}
}

// listed is a list that has only its Config.
type listed struct {
	edge.Store
	version int64
	down    bool
}

// State implements edge.Store.
func (l *listed) State(context.Context) (string, int, error) {
	if l.down {
		return "", 0, errors.New("down")
	}
	return "tag", 0, nil
}

// Get implements edge.Store.
func (l *listed) Get(context.Context, string) (string, error) {
	value, _ := edge.Config{Version: l.version}.Value()
	return value, nil
}

// Update implements edge.Store.
func (l *listed) Update(_ context.Context, _ string, values map[string]string) error {
	var c edge.Config
	err := json.Unmarshal([]byte(values[edge.ConfigKey]), &c)
	l.version = c.Version
	return err
}
