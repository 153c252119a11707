package gateway_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway"
)

// recording describes an API that another project tested on AWS, and what AWS did with its
// requests. testdata/recordings/README.md describes the files.
type recording struct {
	Test       string
	API        gateway.Kind
	Stage      string
	Methods    []string       // methods whose integration is the function, such as "ANY /{proxy+}"
	Responses  map[string]any // properties of gateway responses, by type
	Authorizer bool           // true if the methods have the authorizer
	Exchanges  []exchange

	// The fields below are those of other tests.
	Timeout, Wait int     // of the function, in seconds, and of the integration, in milliseconds; 0: the longest
	Rate          float64 // throttle of the stage
	Burst         int64   // 0: no throttle
}

// exchange is one request with the facts that AWS's answer and the functions' events showed.
type exchange struct {
	Name    string
	Request string   // method, path and query as sent
	Headers []string // header lines
	Body    string
	Guard   outcome // outcome of the authorizer
	outcome         // outcome of the function
	// Facts has the recorded values by path. For example, event/headers/Accept is the header Accept
	// in the function's event, and event/headers/* is the sorted list of header names. A value
	// {"pattern": …} is a regular expression; {"absent": true} means no value.
	Facts map[string]any
	// Differs has the facts for which the gateway returns another value than AWS. Key: the path of
	// the fact. Value: the difference in testdata/recordings/README.md that explains it.
	Differs map[string]string
}

type outcome struct {
	Answer json.RawMessage
	Error  string
}

func (o outcome) stub() *stub {
	if o.Error != "" {
		return fails(o.Error)
	}
	return says(string(o.Answer))
}

// The gateway does what AWS did in each recording, except for the listed differences. The test
// fails for a difference that is not listed and for a listed difference that does not occur.
func TestRecordings(t *testing.T) {
	agree, differ := 0, 0
	listed := map[string]bool{}
	paths, err := filepath.Glob("testdata/recordings/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("recordings: got %d files, error %v, want some", len(paths), err)
	}
	for _, path := range paths {
		file := decode[struct{ Recordings []recording }](t, storetest.Must(os.ReadFile(path)))
		for _, r := range file.Recordings {
			for _, x := range r.Exchanges {
				t.Run(filepath.Base(path)+"/"+r.Test+"/"+x.Name, func(t *testing.T) {
					observed := r.replay(t, x)
					for fact, want := range x.Facts {
						same := matches(observed, fact, want)
						switch difference := x.Differs[fact]; {
						case difference == "" && !same:
							got, _ := lookUp(observed, strings.Split(fact, "/"))
							t.Errorf("%s: got %#v, want %#v", fact, got, want)
						case difference == "":
							agree++
						case same:
							t.Errorf("%s: got the recorded value %#v, want another value because of the listed difference %q; remove it from the list", fact,
								want, difference)
						default:
							differ++
							listed[difference] = true
						}
					}
				})
			}
		}
	}
	t.Logf("%d facts agree, %d differ", agree, differ)
	checkDifferences(t, slices.Sorted(maps.Keys(listed)))
}

// checkDifferences checks that the README lists exactly these differences.
func checkDifferences(t *testing.T, want []string) {
	t.Helper()
	readme := string(storetest.Must(os.ReadFile("testdata/recordings/README.md")))
	_, list, _ := strings.Cut(readme, "## Differences\n")
	var got []string
	for _, each := range regexp.MustCompile(`(?m)^- \*\*(.+?)\*\*`).FindAllStringSubmatch(list, -1) {
		got = append(got, each[1])
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("differences of the README: got %q, want %q", got, want)
	}
}

// replay sends the request of x. It returns the functions' events and the answer in the form of
// Facts.
func (r recording) replay(t *testing.T, x exchange) map[string]any {
	t.Helper()
	function, guard := x.stub(), x.Guard.stub()
	server := serve(t, newAPI(t, r, functions{"Function": function, "Guard": guard}, frozen))
	observed := map[string]any{"answer": exchanged(t, server, x)}
	for name, f := range map[string]*stub{"event": function, "authorizer": guard} {
		if f.calls() > 0 {
			observed[name] = decode[any](t, f.event(t))
		}
	}
	return observed
}

// exchanged sends the request of x byte for byte. It returns the answer with the header names
// exactly as the gateway sent them.
func exchanged(t *testing.T, server *httptest.Server, x exchange) map[string]any {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	chunked := slices.Contains(x.Headers, "Transfer-Encoding: chunked")
	lines := append([]string{x.Request + " HTTP/1.1", "Host: Api.execute-api.us-east-1.amazonaws.com"}, x.Headers...)
	if !slices.Contains(x.Headers, "Connection: close") {
		lines = append(lines, "Connection: close")
	}
	body := x.Body
	if chunked {
		body = "0\r\n\r\n"
	} else if body != "" || strings.HasPrefix(x.Request, "POST ") {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	if _, err := io.WriteString(c, strings.Join(lines, "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, os.ErrClosed) {
		t.Fatal(err)
	}
	return parseAnswer(t, strings.TrimPrefix(string(content), "HTTP/1.1 100 Continue\r\n\r\n"))
}

// parseAnswer returns the status, the headers, and the headers by lower-case name. It also returns
// the body in three forms: text, base64 and decoded JSON.
func parseAnswer(t *testing.T, content string) map[string]any {
	t.Helper()
	head, body, _ := strings.Cut(content, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	var status float64
	if _, err := fmt.Sscanf(lines[0], "HTTP/1.1 %f ", &status); err != nil {
		t.Fatalf("answer: got %q, want a status", content)
	}
	headers, lower := map[string]any{}, map[string]any{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Date" || name == "Connection" {
			continue
		}
		if before, ok := headers[name].(string); ok {
			value = before + ", " + value
		}
		headers[name], lower[strings.ToLower(name)] = value, value
	}
	answer := map[string]any{"status": status, "headers": headers, "lower": lower, "body": body,
		"base64": base64.StdEncoding.EncodeToString([]byte(body))}
	var decoded any
	if json.Unmarshal([]byte(body), &decoded) == nil {
		answer["json"] = decoded
	}
	return answer
}

func matches(observed any, path string, want any) bool {
	got, found := lookUp(observed, strings.Split(path, "/"))
	if special, ok := want.(map[string]any); ok && len(special) == 1 {
		if special["absent"] == true {
			return !found
		}
		if pattern, ok := special["pattern"].(string); ok {
			text, ok := got.(string)
			return ok && regexp.MustCompile(pattern).MatchString(text)
		}
	}
	return found && reflect.DeepEqual(got, want)
}

// lookUp returns the value at a path. If the last part of the path is *, it returns the sorted keys
// of the object.
func lookUp(v any, path []string) (value any, found bool) {
	for i, part := range path {
		members, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if part == "*" && i == len(path)-1 {
			names := []any{}
			for _, name := range slices.SortedFunc(maps.Keys(members), cmp.Compare[string]) {
				names = append(names, name)
			}
			return names, true
		}
		v, ok = members[part]
		if !ok {
			return nil, false
		}
	}
	return v, true
}

// stack returns the stack of the recording. Both of its APIs have the same routes.
func (r recording) stack(t testing.TB) *gateway.Stack {
	t.Helper()
	resources := map[string]any{}
	for kind, properties := range r.Responses {
		properties.(map[string]any)["ResponseType"] = kind
		resources[kind] = map[string]any{"Type": "AWS::ApiGateway::GatewayResponse", "Properties": properties}
	}
	document, err := json.Marshal(map[string]any{"Resources": resources})
	if err != nil {
		t.Fatal(err)
	}
	s, err := gateway.ReadStack(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []*gateway.Stage{&s.REST, &s.HTTP} {
		stage.Name = r.Stage
		if r.Wait > 0 {
			stage.Wait = time.Duration(r.Wait) * time.Millisecond
		}
		if r.Burst > 0 {
			stage.Throttle = storetest.Must(gateway.Throttle(r.Rate, r.Burst))
		}
	}
	s.Handler.Timeout = time.Duration(cmp.Or(r.Timeout, 60)) * time.Second
	s.Authorizer.Timeout = 5 * time.Second
	return s
}
