package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/operator"
	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/why"
)

// weir why shows why the gateway refused a caller, at once and without a further request.
func TestWhy(t *testing.T) {
	l := newLocal(t, serve.Memory, "../serve/testdata/design.json")
	token := l.token("alice")
	for range 60 { // the limit admits 20
		l.search(token)
	}
	l.search("")
	t.Setenv("WEIR_URL", l.rest.URL)
	a := answers[why.Answer](t, "why", "user:alice", "--since", "10m")
	if a.Count != 40 || len(a.Rows) != 1 || a.Rows[0].Caller != "user:alice" || a.Rows[0].Rule != "GET /api/v1/search" || a.Rows[0].Limit != "search" || a.Rows[0].Capacity != 20 {
		t.Fatalf("got %+v, want 40 refusals of alice by the limit search", a)
	}
	for _, args := range [][]string{{"why", "user:alice"}, {"why"}} {
		code, out, errs := weir(t, args...)
		lines := strings.Split(out, "\n")
		if code != 0 || errs != "" || len(lines) != 4 || !strings.HasSuffix(lines[0], "40 refused in the last 1h at "+l.rest.URL) || strings.HasPrefix(lines[0], "user:alice: ") != (len(args) > 1) ||
			strings.Join(strings.Fields(lines[1]), " ") != "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN" || !strings.HasPrefix(lines[2], "40     user:alice  GET /api/v1/search  search  20") || !strings.Contains(lines[2], "0 of 20  ") {
			t.Errorf("%q: got exit %d, stderr %q, output\n%s", args, code, errs, out)
		}
	}
	if _, help, _ := weir(t, "why", "--help"); !strings.Contains(strings.Join(strings.Fields(help), " "), "A limit whose per lacks endpoint counts for several rules, so the command shows its name") {
		t.Errorf("help: got %s, want what RULE shows for a limit without endpoint", help)
	}
	for args, want := range map[string]string{
		"why user:zoe":            "user:zoe: 0 refused in the last 1h at " + l.rest.URL + "\nthis does not count 401s; the log of the gateway or functions has them as \"credential refused\"\n",
		"why --shadow --since 1m": "0 would have been refused by limits in shadow mode in the last 1m at " + l.rest.URL + "\n",
	} {
		if code, out, errs := weir(t, strings.Fields(args)...); code != 0 || out != want || errs != "" {
			t.Errorf("%s: got exit %d, output %q, stderr %q, want %q", args, code, out, errs, want)
		}
	}
}

// The answer about a caller shows the refusals whose lines name no caller, and what an answer leaves out.
func TestWhyOptions_print(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	row := why.Row{Subject: "aaaa", Count: 2, First: at, Last: at}
	behind := row
	behind.AddressFrom = "source (Weir-Viewer-Address: missing)"
	for _, c := range []struct {
		caller string
		shadow bool
		answer why.Answer
		want   []string
	}{
		{"user:a", false, why.Answer{Unnamed: 9}, []string{"user:a: 0 refused in the last 1m at here", "9 more are in log lines that name no caller, and can be of this one"}},
		{"", false, why.Answer{Count: 9, Unnamed: 9}, []string{"9 refused in the last 1m at here", "9 of them are in log lines that name no caller"}},
		{"", false, why.Answer{Count: 5, Others: 3, Partial: true, Rows: []why.Row{row}}, []string{
			"5 refused in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN", "2 aaaa - - T T - -",
			"3 are not in the table; --number shows more rows", "the logs have more callers than one query returns, so each number is a minimum; ask for a shorter period",
		}},
		{"", false, why.Answer{Count: 2, Rows: []why.Row{behind}}, []string{
			"2 refused in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST LEFT THEN WAIT THEN", "2 aaaa - - T T - -", "the last address of aaaa is from source (Weir-Viewer-Address: missing)",
		}},
		{"ip:192.0.2.1", false, why.Answer{To: at, Distribution: true, Edge: []operator.EdgeRefusal{{Subject: "ip:192.0.2.1", Limit: "flood", Version: 7, Until: at.Add(time.Minute), CredentialsPass: true}}}, []string{
			"ip:192.0.2.1: 0 refused in the last 1m at here", `this does not count 401s; the log of the gateway or functions has them as "credential refused"`,
			"requests that the distribution in front refused are in no log line, and not counted",
			"edge the distribution refuses ip:192.0.2.1 until " + at.Add(time.Minute).Local().Format("2006-01-02 15:04:05 MST") + " (1m), by limit flood, except with a credential; weir reset ip:192.0.2.1 removes the entry",
		}},
		{"", true, why.Answer{Count: 2, Rows: []why.Row{row}, Distribution: true}, []string{
			"2 would have been refused by limits in shadow mode in the last 1m at here", "COUNT CALLER RULE LIMIT FIRST LAST", "2 aaaa - - T T",
		}},
	} {
		o := whyOptions{url: "here", since: time.Minute, shadow: c.shadow}
		var out strings.Builder
		err := o.print(&out, c.caller, c.answer)
		got := strings.ReplaceAll(out.String(), at.Local().Format("2006-01-02 15:04:05 MST"), "T")
		var lines []string
		for line := range strings.Lines(got) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		if err != nil || !slices.Equal(lines, c.want) {
			t.Errorf("%+v: error %v, got\n%s\nwant\n%s", c.answer, err, got, strings.Join(c.want, "\n"))
		}
	}
}

func TestWhy_mistakes(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"a b":                              {2, `weir: arguments: got ["a" "b"], want one CALLER, or none`},
		"--since 0s":                       {2, "weir: --since: got 0s, want a period such as 10m"},
		"--since 5":                        {2, `weir: invalid argument "5" for "--since" flag: want a duration with a unit, such as 5m`},
		"--since soon":                     {2, `weir: invalid argument "soon" for "--since" flag: want a duration with a unit, such as 10m`},
		"--number 0":                       {2, "weir: --number: got 0, want 1 to 1000"},
		"--stack s --url http://127.0.0.1": {2, "weir: --url and --stack: got both, want one of them"},
		"--region r":                       {2, "weir: --region: requires --stack"},
		"--url http://site.example":        {2, `weir: url: got "http://site.example", want the URL of a gateway on this machine`},
		"global --stack s":                 {2, `weir: caller: got "global", want user:ID, apikey:ID or ip:ADDRESS`},
		"--url http://127.0.0.1:1":         {1, "weir: no gateway at 127.0.0.1:1: "},
	} {
		code, out, errs := weir(t, append([]string{"why"}, strings.Fields(args)...)...)
		if code != want.code || out != "" || !strings.HasPrefix(errs, want.text) || strings.Count(errs, "\n") != want.code {
			t.Errorf("why %s: got exit %d, output %q, stderr %q, want exit %d and %q", args, code, out, errs, want.code, want.text)
		}
	}
}

// deployment answers the calls of AWS for a stack with an authorizer, a function with the layer, and another function.
type deployment struct {
	t     *testing.T
	query map[string]any // the last query of logs
	token string         // error of StartQuery
	list  string         // output EdgeList of the stack
}

const (
	deploymentTemplate = `{"Resources":{
		"Authorizer":{"Type":"AWS::Lambda::Function","Properties":{"LoggingConfig":{"LogGroup":{"Ref":"Logs1"}},"Environment":{"Variables":{"WEIR_FUNCTION":"authorizer","NAMESPACE":"prod","RECORDS_TABLE":{"Ref":"Records"}}}}},
		"Layered":{"Type":"AWS::Lambda::Function","Properties":{"LoggingConfig":{"LogGroup":{"Ref":"Logs2"}},"Environment":{"Variables":{"WEIR_NAMESPACE":"prod"}}}},
		"Other":{"Type":"AWS::Lambda::Function","Properties":{"LoggingConfig":{"LogGroup":{"Ref":"Logs3"}}}}}}`
	deploymentKey = "the key of this deployment, 32 b"
)

// ServeHTTP implements http.Handler.
func (d *deployment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	form, _ := url.ParseQuery(string(body))
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	xml := func(action, result string) {
		fmt.Fprintf(w, "<%sResponse><%sResult>%s</%sResult></%sResponse>", action, action, result, action, action)
	}
	switch action + form.Get("Action") {
	case "DescribeStacks":
		xml("DescribeStacks", "<Stacks><member><StackName>Weir-prod</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2026-11-21T12:00:00Z</CreationTime><Outputs><member><OutputKey>EdgeList</OutputKey><OutputValue>"+d.list+"</OutputValue></member></Outputs></member></Stacks>")
	case "GetTemplate":
		var text bytes.Buffer
		_ = json.Compact(&text, []byte(deploymentTemplate))
		xml("GetTemplate", "<TemplateBody>"+text.String()+"</TemplateBody>")
	case "ListStackResources":
		var list strings.Builder
		for _, id := range []string{"Authorizer", "Layered", "Other", "Records", "Logs1", "Logs2", "Logs3"} {
			kind := map[bool]string{true: "AWS::Lambda::Function", false: "AWS::Other"}[strings.HasSuffix(id, "r") || id == "Layered"]
			fmt.Fprintf(&list, "<member><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>my-%s</PhysicalResourceId><ResourceType>%s</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus><LastUpdatedTimestamp>2026-11-21T12:00:00Z</LastUpdatedTimestamp></member>", id, id, kind)
		}
		xml("ListStackResources", "<StackResourceSummaries>"+list.String()+"</StackResourceSummaries>")
	case "GetItem":
		if !strings.Contains(string(body), `"my-Records"`) {
			d.t.Errorf("GetItem: got %s, want the records table", body)
		}
		fmt.Fprintf(w, `{"Item":{"pk":{"S":"subjectkey"},"key":{"B":%q}}}`, base64.StdEncoding.EncodeToString([]byte(deploymentKey)))
	case "StartQuery":
		if d.token != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"__type":%q,"message":"no permission logs:StartQuery"}`, d.token)
			return
		}
		if err := json.Unmarshal(body, &d.query); err != nil {
			d.t.Error(err)
		}
		_, _ = io.WriteString(w, `{"queryId":"q"}`)
	case "GetQueryResults":
		_, _ = io.WriteString(w, `{"status":"Complete","results":[[{"field":"subject","value":"aaaa"},{"field":"rule","value":"GET /a\u001b[2J"},{"field":"count","value":"17"},{"field":"first","value":"2026-11-21T11:59:00Z"},{"field":"last","value":"2026-11-21T11:59:00Z"}],[{"field":"count","value":"3"}]]}`)
	default:
		d.t.Errorf("call: got %s, want none of this action", action+form.Get("Action"))
	}
}

// With --stack, weir why queries the logs of the functions that decide, by the hash of the caller. Control characters in
// the logs do not reach the terminal.
func TestWhy_stack(t *testing.T) {
	d := &deployment{t: t}
	s := httptest.NewServer(d)
	defer s.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "1"} {
		t.Setenv(name, value)
	}
	code, out, errs := weir(t, "why", "user:alice", "--stack", "Weir-prod", "--since", "3h")
	if code != 0 || errs != "" || !strings.HasPrefix(out, "user:alice: 17 refused in the last 3h at the stack Weir-prod\n") || !strings.Contains(out, "\n17     user:alice  GET /a[2J  -  ") || !strings.HasSuffix(out, "\n3 more are in log lines that name no caller, and can be of this one\n") || strings.Contains(out, "\x1b") {
		t.Errorf("got exit %d, stderr %q, output\n%s", code, errs, out)
	}
	hash := telemetry.NewSubjectHash("prod", []byte(deploymentKey))(limiter.User("alice"))
	if !strings.Contains(fmt.Sprint(d.query["queryString"]), `subject = "`+hash+`"`) || fmt.Sprint(d.query["logGroupNames"]) != "[my-Logs1 my-Logs2]" || d.query["endTime"].(float64)-d.query["startTime"].(float64) != 3*3600 {
		t.Errorf("query: got %v, want the hash %s, two log groups and three hours", d.query, hash)
	}
	if a := answers[why.Answer](t, "why", "--stack", "Weir-prod"); a.Count != 20 || len(a.Rows) != 1 || a.Rows[0].Subject != "aaaa" || a.Rows[0].Caller != "" || strings.Contains(fmt.Sprint(d.query["queryString"]), "subject =") {
		t.Errorf("all callers: got %+v for %v", a, d.query)
	}
	d.token = "AccessDeniedException"
	if code, _, errs := weir(t, "why", "--stack", "Weir-prod"); code != 1 || !strings.Contains(errs, "no permission logs:StartQuery") || strings.Count(errs, "\n") != 1 {
		t.Errorf("without permission: got exit %d, stderr %q, want 1 and one line", code, errs)
	}
}

// With --stack, weir why shows the caller's entry in the list of the stack's distribution, or warns that it cannot.
func TestWhy_stack_edge(t *testing.T) {
	d := &deployment{t: t, list: listARN}
	list := &keyValueStore{values: map[string]string{}}
	c := edge.Config{Version: 7, Secret: "secret", IPv6Bits: 64}
	value, _ := c.Value()
	list.set(map[string]string{edge.ConfigKey: value, c.Key(c.Address(netip.MustParseAddr("192.0.2.1"))): edge.Entry{Until: time.Now().Add(time.Hour), Version: 7, Name: "flood"}.Value()})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/key-value-stores/") {
			list.ServeHTTP(w, r)
			return
		}
		d.ServeHTTP(w, r)
	}))
	defer s.Close()
	environment := []string{"AWS_ENDPOINT_URL=http://aws.example", "HTTP_PROXY=" + s.URL, "http_proxy=" + s.URL, "NO_PROXY=", "no_proxy=", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}
	args := []string{"why", "ip:192.0.2.1", "--stack", "Weir-prod"}
	if out, failed := run(t, environment, args...); failed || !strings.Contains(out, "are in no log line, and not counted\nedge the distribution refuses ip:192.0.2.1 until ") || !strings.Contains(out, "by limit flood; weir reset ip:192.0.2.1 removes the entry\n") {
		t.Errorf("got failed %t, %s; want the entry", failed, out)
	}
	list.deny(true)
	if out, failed := run(t, environment, args...); failed || !strings.Contains(out, "ip:192.0.2.1: 17 refused") || !strings.Contains(out, "warning: the list of the distribution cannot be read") {
		t.Errorf("without permission: got failed %t, %s; want the answer and a warning", failed, out)
	}
}
