package ratelimit_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/limiter/storetest"
)

// Only an imported API has a precheck, which may only read this API and its gateway responses. The
// responses and the authorizer depend on it.
func TestLimits_precheck(t *testing.T) {
	_, stack, own := newAPI(t)
	l := ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	l.Attach(own)
	l.NewAuthorizer(awsapigateway.RestApi_FromRestApiId(stack, jsii.String("Imported"), jsii.String("a1b2c3d4e5")))
	made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
	for part, want := range map[string]int{
		`"Action":"apigateway:GET","Effect":"Allow","Resource":[{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":apigateway:",` +
			`{"Ref":"AWS::Region"},"::/restapis/a1b2c3d4e5"]]},`: 1,
		`"apigateway:`:                         1,
		`"DependsOn":["ApiLimitsPrecheck`:      0,
		`"DependsOn":["ImportedLimitsPrecheck`: 8, // six responses, the authorizer, and the function, which needs its role
		`"Type":"Custom::WeirPrecheck"`:        1,
	} {
		if got := strings.Count(made, part); got != want {
			t.Errorf("an own and an imported API: got %s %d times, want %d", part, got, want)
		}
	}
}

// apiGateway is a fake of API Gateway that gives one answer to GET /restapis/ID/gatewayresponses. GET /restapis/ID gets
// the same answer if it is an error.
type apiGateway struct {
	status int
	body   string
	denied int32 // number of calls that are denied first
	calls  atomic.Int32
}

func (g *apiGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.calls.Add(1) <= g.denied {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"name":"AccessDeniedException","message":"not yet"}`)
		return
	}
	if g.status == 0 { // status 0: close the connection without an answer
		<-r.Context().Done()
		return
	}
	w.WriteHeader(g.status)
	if g.status == http.StatusOK && !strings.HasSuffix(r.URL.Path, "/gatewayresponses") {
		_, _ = io.WriteString(w, `{"name":"shop"}`)
		return
	}
	_, _ = io.WriteString(w, g.body)
}

// precheckClient replaces the AWS SDK's client in the precheck: no signatures, no retries. It also removes pauses.
const precheckClient = `require("node:timers/promises").setTimeout = async () => {};
exports.APIGatewayClient = class {
	async send({ path }) {
		const r = await fetch(process.env.API + path);
		const answer = await r.json();
		if (!r.ok) throw Object.assign(new Error(answer.message), { name: answer.name });
		return answer;
	}
};
exports.GetRestApiCommand = class { constructor({ restApiId }) { this.path = "/restapis/" + restApiId; } };
exports.GetGatewayResponsesCommand = class { constructor({ restApiId }) { this.path = "/restapis/" + restApiId + "/gatewayresponses"; } };`

// answer is what the precheck sends to CloudFormation.
type answer struct {
	Status, Reason     string
	PhysicalResourceID string `json:"PhysicalResourceId"`
	StackID            string `json:"StackId"`
	RequestID          string `json:"RequestId"`
	LogicalResourceID  string `json:"LogicalResourceId"`
	Data               struct{ Name string }
}

// runPrecheck runs JavaScript that can call the precheck's handler.
func runPrecheck(t *testing.T, script string) (output string, err error) {
	t.Helper()
	storetest.Program(t, "node")
	folder := t.TempDir()
	module := filepath.Join(folder, "node_modules/@aws-sdk/client-api-gateway")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		// relative to testdata/shop, where the tests run
		filepath.Join(folder, "index.js"): string(storetest.Must(os.ReadFile("../../precheck.js"))),
		filepath.Join(module, "index.js"): precheckClient,
		filepath.Join(folder, "run.js"):   `const { handler } = require("./index.js"); (async () => { ` + script + `; process.exit(0); })();`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "node", "run.js")
	c.Dir = folder
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestPrecheck(t *testing.T) {
	const (
		ours   = `ResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`
		update = `RequestType:"Update",PhysicalResourceId:"precheck-a1",` + ours + `,OldResourceProperties:`
		clean  = `{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":true},{"responseType":"THROTTLED","defaultResponse":true},` +
			`{"responseType":"DEFAULT_4XX","defaultResponse":false,"responseTemplates":{}}]}`
		foreign = `{"items":[{"responseType":"THROTTLED","defaultResponse":false,"responseTemplates":{}},{"responseType":"ACCESS_DENIED",` +
			`"defaultResponse":false,"responseTemplates":{"application/json":"theirs"}}]}`
		own = `{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":false,"responseTemplates":{"application/json":"ours"}}]}`
	)
	taken := func(types string) string {
		return "RestApiId: the API a1 already has gateway responses of the types " + types +
			"; an API has one response of each type, so remove them from the API (aws apigateway delete-gateway-response), or limit another API"
	}
	tests := map[string]struct {
		event  string
		status int
		body   string
		reason string
		calls  int32
		denied int32
	}{
		"create": {`RequestType:"Create",` + ours, 200, clean, "", 2, 0},
		"create: no API": {`RequestType:"Create",ResourceProperties:{RestApiId:"b2",Responses:{ACCESS_DENIED:"ours"}}`, 404,
			`{"name":"NotFoundException","message":"Invalid API identifier specified"}`,
			"RestApiId: no REST API b2 in this account and region; pass the id of a REST API (HTTP APIs have other ids)", 1, 0},
		"create: responses":          {`RequestType:"Create",` + ours, 200, foreign, taken("ACCESS_DENIED, THROTTLED"), 2, 0},
		"create: another deployment": {`RequestType:"Create",` + ours, 200, own, taken("ACCESS_DENIED"), 2, 0},
		// IAM can deny calls for some seconds after the role was created
		"create: denied at first": {`RequestType:"Create",` + ours, 200, clean, "", 21, 19},
		"create: denied": {`RequestType:"Create",` + ours, 403, `{"name":"AccessDeniedException","message":"no"}`,
			"RestApiId: the API a1 cannot be read (AccessDeniedException: no); deploy again", 20, 0},
		"create: internal error": {`RequestType:"Create",` + ours, 500, `{"name":"InternalFailure","message":"broken"}`,
			"RestApiId: the API a1 cannot be read (InternalFailure: broken); deploy again", 1, 0},
		"create: no answer": {`RequestType:"Create",` + ours, 0, "", "RestApiId: API Gateway did not answer in time; deploy again", 1,
			0},
		"update: same API":           {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older",THROTTLED:"t"}}`, 200, "{}", "", 1, 0},
		"update: a type more, free":  {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older"}}`, 200, own, "", 2, 0},
		"update: a type more, taken": {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older"}}`, 200, foreign, taken("THROTTLED"), 2, 0},
		"update: another API, free":  {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, clean, "", 2, 0},
		"update: an empty response": {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200,
			`{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":false}]}`, taken("ACCESS_DENIED"), 2, 0},
		"create: no list": {`RequestType:"Create",` + ours, 200, "{}",
			"RestApiId: the API a1 cannot be read (TypeError: Cannot read properties of undefined (reading 'filter')); deploy again", 2, 0},
		"update: another API, taken": {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, foreign,
			taken("ACCESS_DENIED, THROTTLED"), 2, 0},
		"update: back after a failure": {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, own, "", 2, 0},
		"delete":                       {`RequestType:"Delete",PhysicalResourceId:"precheck-a1",` + ours, 0, "", "", 0, 0},
		"delete: after a failed create": {`RequestType:"Delete",PhysicalResourceId:"precheck-a1",ResourceProperties:{RestApiId:"b2",` +
			`Responses:{ACCESS_DENIED:"ours"}}`, 403, `{}`, "", 0, 0},
		"update: one response less": {`RequestType:"Update",PhysicalResourceId:"precheck-a1",ResourceProperties:{RestApiId:"a1",` +
			`Responses:{ACCESS_DENIED:"ours"}},OldResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours",DEFAULT_4XX:""}}`, 200, "{}",
			"", 1, 0},
	}
	gateways, answers := map[string]*apiGateway{}, map[string]*answer{}
	response := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.Header.Get("Content-Type") != "" {
			t.Errorf("answer: got %s with the type %q, want PUT without a type", r.Method, r.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(r.Body).Decode(answers[r.URL.Query().Get("of")]); err != nil {
			t.Error(err)
		}
	}))
	defer response.Close()
	var script strings.Builder // calls the handler for one event after another
	for name, tt := range tests {
		gateways[name], answers[name] = &apiGateway{status: tt.status, body: tt.body, denied: tt.denied}, &answer{}
		api := httptest.NewServer(gateways[name])
		t.Cleanup(api.Close)
		remaining := 20000
		if tt.status == 0 {
			remaining = 5050
		}
		fmt.Fprintf(&script, "process.env.API = %q; await "+
			"handler({StackId:\"stack\",RequestId:\"request\",LogicalResourceId:\"id\",ResponseURL:%q,%s}, {getRemainingTimeInMillis: () => %d});\n",
			api.URL, response.URL+"?of="+url.QueryEscape(name), tt.event, remaining)
	}
	if out, err := runPrecheck(t, script.String()); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, tt := range tests {
		want := answer{Status: "SUCCESS", Reason: tt.reason, PhysicalResourceID: "precheck-a1", StackID: "stack", RequestID: "request",
			LogicalResourceID: "id"}
		if tt.reason != "" {
			want.Status = "FAILED"
		} else if tt.calls > 0 {
			want.Data.Name = "shop"
		}
		if strings.Contains(name, "no API") {
			want.PhysicalResourceID = "precheck-b2"
		}
		if got, calls := *answers[name], gateways[name].calls.Load(); got != want || calls != tt.calls {
			t.Errorf("%s: got %+v after %d calls, want %+v after %d", name, got, calls, want, tt.calls)
		}
	}
}

// If CloudFormation rejects the answer, the invocation fails, and Lambda repeats it.
func TestPrecheck_rejected(t *testing.T) {
	response := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer response.Close()
	out, err := runPrecheck(t, `await handler({RequestType:"Delete",ResourceProperties:{},ResponseURL:"`+response.URL+
		`"}, {getRemainingTimeInMillis: () => 20000})`)
	if err == nil || !strings.Contains(out, "CloudFormation rejected the answer: status 403") {
		t.Errorf("got %v and %s, want an error that names the status", err, out)
	}
}
