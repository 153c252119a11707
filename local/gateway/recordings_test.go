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

	"github.com/weir-limits/weir/local/gateway"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// recording is a test that another project ran against API Gateway: an API, and what AWS did with requests.
// testdata/recordings/README.md describes the files.
type recording struct {
	Test       string
	API        gateway.Kind
	Stage      string
	Binary     []string       // binary media types
	Methods    []string       // methods that invoke the function, such as "ANY /{proxy+}"
	Mocks      []string       // methods with the mock integration of a preflight
	Responses  map[string]any // properties of gateway responses, by type
	Authorizer bool           // whether the methods have the authorizer
	Identity   string         // the identity source of the authorizer
	Exchanges  []exchange
}

// exchange is a request and the facts that AWS's answer, and the events of the functions, showed.
type exchange struct {
	Name    string
	Request string   // the method and the path with the query, as sent
	Headers []string // lines of the header
	Body    string
	Guard   outcome // of the authorizer
	outcome         // of the function
	// Facts are the recorded values, by a path such as event/headers/Accept. The path event/headers/* has the
	// sorted names. A value {"pattern": …} is a regular expression, and {"absent": true} is no value.
	Facts map[string]any
	// Differs has, by path, the difference in testdata/recordings/README.md that explains another value
	// of the gateway.
	Differs map[string]string
}

// outcome is what a function returns.
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

// The gateway does what API Gateway did, except for the listed differences. A difference that is not
// listed, or that is listed and does not exist, fails the test.
func TestRecordings(t *testing.T) {
	agree, differ := 0, 0
	listed := map[string]bool{}
	for _, path := range templatetest.Glob(t, "testdata/recordings/*.json") {
		file := decode[struct{ Recordings []recording }](t, templatetest.Read(t, path))
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
							t.Errorf("%s: got the recorded value %#v, want the difference %q; remove it", fact, want, difference)
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

// checkDifferences checks that the list in the README has exactly these differences.
func checkDifferences(t *testing.T, want []string) {
	t.Helper()
	readme := string(templatetest.Read(t, "testdata/recordings/README.md"))
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

// replay sends the request of x and returns the events of the functions and the answer.
func (r recording) replay(t *testing.T, x exchange) map[string]any {
	t.Helper()
	parsed, err := template.Parse(r.template(t))
	if err != nil {
		t.Fatal(err)
	}
	function, guard := x.stub(), x.Guard.stub()
	server := serve(t, apiOf(t, parsed, r.API, functions{"Function": function, "Guard": guard}, frozen))
	observed := map[string]any{"answer": exchanged(t, server, x)}
	for name, f := range map[string]*stub{"event": function, "authorizer": guard} {
		if f.calls() > 0 {
			observed[name] = decode[any](t, f.event(t))
		}
	}
	return observed
}

// exchanged sends a request byte for byte, and returns the answer with the names of its header as sent.
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

// parseAnswer returns the status, the headers, the headers by lower-case name, and the body as text, as base64
// and decoded from JSON.
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
	answer := map[string]any{"status": status, "headers": headers, "lower": lower, "body": body, "base64": base64.StdEncoding.EncodeToString([]byte(body))}
	var decoded any
	if json.Unmarshal([]byte(body), &decoded) == nil {
		answer["json"] = decoded
	}
	return answer
}

// matches reports whether the observed value at a path equals the recorded value.
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

// lookUp returns the value at a path. The last part * stands for the sorted names of the members.
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
		if v, ok = members[part]; !ok {
			return nil, false
		}
	}
	return v, true
}
