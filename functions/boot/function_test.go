package boot_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// TestMain lets a test start a function as a separate process.
func TestMain(m *testing.M) {
	switch os.Getenv("WEIR_TEST_FUNCTION") {
	case "authorizer":
		boot.Start(lambdahttp.NewAuthorizer)
		return
	case "signingkeys":
		boot.StartDeploy()
		return
	}
	os.Exit(m.Run())
}

// lambdaRuntime starts a server with the API of the Lambda runtime. It delivers one event and returns
// the answer of the function.
func lambdaRuntime(t *testing.T, event []byte) (address string, answers <-chan string) {
	t.Helper()
	answered, handedOut := make(chan string, 1), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/invocation/next") {
			if handedOut {
				<-r.Context().Done()
				return
			}
			handedOut = true
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", "1")
			w.Header().Set("Lambda-Runtime-Deadline-Ms", "4102444800000")
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:authorizer")
			_, _ = w.Write(event)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusAccepted)
		answered <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), answered
}

func function(t *testing.T, environment ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append([]string{"WEIR_TEST_FUNCTION=authorizer", "AWS_LAMBDA_FUNCTION_NAME=authorizer"}, environment...)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	return c, &output
}

// invoked starts a function, and returns its answer to an event, and its output until then.
func invoked(t *testing.T, event []byte, environment ...string) (answer, output string) {
	t.Helper()
	address, answers := lambdaRuntime(t, event)
	c, out := function(t, append(environment, "AWS_LAMBDA_RUNTIME_API="+address)...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case answer = <-answers:
	case <-time.After(30 * time.Second):
		t.Error("answer: got none in 30s, want one")
	}
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // always an error, because the test killed the process
	return answer, out.String()
}

// sampleRules selects the rules of the sample API. A copy of the repository replaces the built-in ones.
const sampleRules = "RULES_FILE=../lambdahttp/testdata/rules.json"

// The function's process answers an event of Lambda and writes metrics.
func TestStart(t *testing.T) {
	event := storetest.Must(events.Files.ReadFile("rest-authorizer-anonymous.json"))
	answer, output := invoked(t, event, "STORE=memory:", "NAMESPACE=test", "WEIR_LOCAL=true", sampleRules, "RULES_VERSION=7")
	if !strings.HasPrefix(answer, "/2018-06-01/runtime/invocation/1/response ") || !strings.Contains(answer, `"Effect":"Allow"`) ||
		!strings.Contains(answer, `"rateLimitRemaining":"19"`) {
		t.Errorf("got answer %s, want Allow; output: %s", answer, output)
	}
	if !strings.Contains(output, `"Namespace":"Weir/test"`) || !strings.Contains(output, `"Allowed":1,`) ||
		!strings.Contains(output, `"RulesVersion":7,`) {
		t.Errorf("metrics: got %s, want one allowed request under version 7 of the rules", output)
	}
}

// Every log line of an invocation has Lambda's request id, including lines that the limiter logs.
func TestStart_requestID(t *testing.T) {
	event := storetest.Must(events.Files.ReadFile("rest-authorizer-anonymous.json"))
	_, output := invoked(t, event, "STORE=redis://127.0.0.1:1", "NAMESPACE=test", sampleRules, "RULES_VERSION=7",
		"AWS_LAMBDA_LOG_FORMAT=JSON")
	reported := false
	for line := range strings.Lines(output) {
		if strings.Contains(line, `"store failed"`) {
			reported = true
			if !strings.Contains(line, `"requestId":"1"`) {
				t.Errorf("log line: got %s, want the request id 1", line)
			}
		}
	}
	if !reported {
		t.Errorf("log: got no line \"store failed\", want one: %s", output)
	}
}

// A rejected document is counted before the process ends. The built-in document is rejected because
// it has no version. A missing file is not counted, because there is no document to reject.
func TestStart_rulesRefused(t *testing.T) {
	for rules, want := range map[string]int{write(t, "rules.json", `{"rules":[{}]}`): 1, "": 1, "nowhere": 0} {
		c, output := function(t, "STORE=memory:", "NAMESPACE=test", "RULES_FILE="+rules)
		err := c.Run()
		if status, ok := errors.AsType[*exec.ExitError](err); !ok || status.ExitCode() != 1 ||
			strings.Count(output.String(), "\n") != 1+want || strings.Count(output.String(), `"RulesRefused":1`) != want {
			t.Errorf("rules %q: got %v, want exit status 1 and %d rejected documents in the metrics: %s", rules, err, want, output)
		}
	}
}

// An invalid configuration or a rejected document ends the process with one log line that names the
// cause. This is true for every kind of store.
func TestStart_mistake(t *testing.T) {
	bad := write(t, "rules.json", `{"rules":[{"endpoint":"x","limits":{}}]}`)
	for want, variables := range map[string][]string{
		`"STORE: got`: {"STORE=disk"},
		`"rules:\n`:   {"STORE=redis://127.0.0.1:1", "RULES_FILE=" + bad, "RULES_VERSION=1"},
	} {
		c, output := function(t, append(variables, "NAMESPACE=test")...)
		err := c.Run()
		if status, ok := errors.AsType[*exec.ExitError](err); !ok || status.ExitCode() != 1 || strings.Count(output.String(), "level=") != 1 ||
			!strings.Contains(output.String(), want) {
			t.Errorf("process: got error %v, want exit status 1 and one log line that names the cause: %s", err, output)
		}
	}
}

// A function reads the records table at its start. If the table fails, the function logs a
// warning and starts.
func TestStart_records(t *testing.T) {
	table := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		table <- string(body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException"}`)
	}))
	defer server.Close()
	_, output := invoked(t, []byte(`{}`), "STORE=memory:", "NAMESPACE=test", "WEIR_LOCAL=true", "RECORDS_TABLE=weir-records",
		"DYNAMODB_ENDPOINT="+server.URL)
	if !strings.Contains(output, `"records table not reached"`) || len(table) != 2 || !strings.Contains(<-table, `"subjectkey"`) ||
		!strings.Contains(<-table, `"secrets"`) {
		t.Errorf("got %d reads of the records table, want 2 and a warning: %s", len(table), output)
	}
}

// A change of the key file applies to the next request. While the file has a mistake, no key can be verified.
func TestEnvironment_keysFile(t *testing.T) {
	record := func(id string) string {
		return `[{"id":"` + id + `","hash":"` + caller.HashAPIKey([]byte("0123456789abcdef"), "the-key") + `"}]`
	}
	records := write(t, "apikeys.json", record("first"))
	c := load(t, "STORE=memory:", "WEIR_LOCAL=true", "API_KEYS_FILE="+records, "API_KEY_SECRET_FILE="+write(t, "secret", "0123456789abcdef"))
	store := storetest.Must(memstore.New(memstore.Options{}))
	e := storetest.Must(c.Environment(t.Context(), store, boot.Options{Logger: slog.New(slog.DiscardHandler)}))
	find := storetest.Must(c.FindRecord(t.Context()))
	for _, id := range []string{"first", "other", "", "third"} { // the same size, a mistake, the same size as before the mistake
		next := records + ".next"
		if err := os.WriteFile(next, []byte(record(id)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, records); err != nil {
			t.Fatal(err)
		}
		found, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{APIKey: "the-key"})
		_, known, findErr := find(t.Context(), id)
		if id == "" {
			if !errors.Is(err, caller.ErrUnverified) || findErr == nil {
				t.Errorf("mistake: got errors %v and %v, want ErrUnverified and one", err, findErr)
			}
		} else if err != nil || found.APIKey != id || !known {
			t.Errorf("%s: got %+v, error %v, known to operators: %t, want the record", id, found, err, known)
		}
	}
}
