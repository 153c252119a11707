package ratelimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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
	if made := text(t, assertions.Template_FromStack(stack, nil).ToJSON()); strings.Contains(made, "Precheck") {
		t.Errorf("own API: got a precheck, want none: %s", made)
	}
	_, stack, _ = newAPI(t)
	l = ratelimit.NewLimits(stack, jsii.String("Limits"), props(t))
	l.NewAuthorizer(awsapigateway.RestApi_FromRestApiId(stack, jsii.String("Imported"), jsii.String("a1b2c3d4e5")))
	made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
	for part, want := range map[string]int{
		`"Action":"apigateway:GET","Effect":"Allow","Resource":[{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":apigateway:",{"Ref":"AWS::Region"},"::/restapis/a1b2c3d4e5"]]},`: 1,
		`"apigateway:`:                         1,
		`"DependsOn":["ImportedLimitsPrecheck`: 8, // six responses, the authorizer, and the function, which needs its role
		`"Type":"Custom::WeirPrecheck"`:        1,
	} {
		if got := strings.Count(made, part); got != want {
			t.Errorf("imported API: got %s %d times, want %d", part, got, want)
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

// precheck runs the precheck for an event and returns its answer to CloudFormation.
func precheck(t *testing.T, g *apiGateway, event, remaining string) (got answer) {
	t.Helper()
	api := httptest.NewServer(g)
	t.Cleanup(api.Close)
	response := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut || r.Header.Get("Content-Type") != "" {
			t.Errorf("answer: got %s with the type %q, want PUT without a type", r.Method, r.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(response.Close)
	event = `StackId:"stack",RequestId:"request",LogicalResourceId:"id",ResponseURL:"` + response.URL + `",` + event
	if out, err := runPrecheck(t, api.URL, event, remaining); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return got
}

// runPrecheck runs the precheck's handler with Node.js.
func runPrecheck(t *testing.T, api, event, remaining string) (output string, err error) {
	t.Helper()
	storetest.Program(t, "node")
	folder := t.TempDir()
	module := filepath.Join(folder, "node_modules/@aws-sdk/client-api-gateway")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		filepath.Join(folder, "index.js"): string(storetest.Must(os.ReadFile("../../precheck.js"))), // relative to testdata/shop, where the tests run
		filepath.Join(module, "index.js"): precheckClient,
		filepath.Join(folder, "run.js"):   `require("./index.js").handler({` + event + `}, {getRemainingTimeInMillis: () => ` + remaining + `}).then(() => process.exit(0));`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "node", "run.js")
	c.Dir, c.Env = folder, []string{"API=" + api}
	out, err := c.CombinedOutput()
	return string(out), err
}

func TestPrecheck(t *testing.T) {
	const (
		ours    = `ResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`
		update  = `RequestType:"Update",PhysicalResourceId:"precheck-a1",` + ours + `,OldResourceProperties:`
		clean   = `{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":true},{"responseType":"THROTTLED","defaultResponse":true},{"responseType":"DEFAULT_4XX","defaultResponse":false,"responseTemplates":{}}]}`
		foreign = `{"items":[{"responseType":"THROTTLED","defaultResponse":false,"responseTemplates":{}},{"responseType":"ACCESS_DENIED","defaultResponse":false,"responseTemplates":{"application/json":"theirs"}}]}`
		own     = `{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":false,"responseTemplates":{"application/json":"ours"}}]}`
	)
	taken := func(types string) string {
		return "RestApiId: the API a1 already has gateway responses of the types " + types + "; an API has one response of each type, so remove them from the API (aws apigateway delete-gateway-response), or limit another API"
	}
	tests := map[string]struct {
		event  string
		status int
		body   string
		reason string
		calls  int32
	}{
		"create":                        {`RequestType:"Create",` + ours, 200, clean, "", 2},
		"create: no API":                {`RequestType:"Create",ResourceProperties:{RestApiId:"b2",Responses:{ACCESS_DENIED:"ours"}}`, 404, `{"name":"NotFoundException","message":"Invalid API identifier specified"}`, "RestApiId: no REST API b2 in this account and region; pass the id of a REST API (HTTP APIs have other ids)", 1},
		"create: responses":             {`RequestType:"Create",` + ours, 200, foreign, taken("ACCESS_DENIED, THROTTLED"), 2},
		"create: another deployment":    {`RequestType:"Create",` + ours, 200, own, taken("ACCESS_DENIED"), 2},
		"create: denied":                {`RequestType:"Create",` + ours, 403, `{"name":"AccessDeniedException","message":"no"}`, "RestApiId: the API a1 cannot be read (AccessDeniedException: no); deploy again", 20},
		"create: internal error":        {`RequestType:"Create",` + ours, 500, `{"name":"InternalFailure","message":"broken"}`, "RestApiId: the API a1 cannot be read (InternalFailure: broken); deploy again", 1},
		"create: no answer":             {`RequestType:"Create",` + ours, 0, "", "RestApiId: API Gateway did not answer in time; deploy again", 1},
		"update: same API":              {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older",THROTTLED:"t"}}`, 200, "{}", "", 1},
		"update: a type more, free":     {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older"}}`, 200, own, "", 2},
		"update: a type more, taken":    {update + `{RestApiId:"a1",Responses:{ACCESS_DENIED:"older"}}`, 200, foreign, taken("THROTTLED"), 2},
		"update: another API, free":     {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, clean, "", 2},
		"update: an empty response":     {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, `{"items":[{"responseType":"ACCESS_DENIED","defaultResponse":false}]}`, taken("ACCESS_DENIED"), 2},
		"create: no list":               {`RequestType:"Create",` + ours, 200, "{}", "RestApiId: the API a1 cannot be read (TypeError: Cannot read properties of undefined (reading 'filter')); deploy again", 2},
		"update: another API, taken":    {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, foreign, taken("ACCESS_DENIED, THROTTLED"), 2},
		"update: back after a failure":  {update + `{RestApiId:"z9",Responses:{ACCESS_DENIED:"ours",THROTTLED:"t"}}`, 200, own, "", 2},
		"delete":                        {`RequestType:"Delete",PhysicalResourceId:"precheck-a1",` + ours, 0, "", "", 0},
		"delete: after a failed create": {`RequestType:"Delete",PhysicalResourceId:"precheck-a1",ResourceProperties:{RestApiId:"b2",Responses:{ACCESS_DENIED:"ours"}}`, 403, `{}`, "", 0},
		"update: one response less":     {`RequestType:"Update",PhysicalResourceId:"precheck-a1",ResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours"}},OldResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours",DEFAULT_4XX:""}}`, 200, "{}", "", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := &apiGateway{status: tt.status, body: tt.body}
			remaining := "20000"
			if tt.status == 0 {
				remaining = "5050"
			}
			want := answer{Status: "SUCCESS", Reason: tt.reason, PhysicalResourceID: "precheck-a1", StackID: "stack", RequestID: "request", LogicalResourceID: "id"}
			if tt.reason != "" {
				want.Status = "FAILED"
			} else if tt.calls > 0 {
				want.Data.Name = "shop"
			}
			if strings.Contains(name, "no API") {
				want.PhysicalResourceID = "precheck-b2"
			}
			if got := precheck(t, g, tt.event, remaining); got != want || g.calls.Load() != tt.calls {
				t.Errorf("got %+v after %d calls, want %+v after %d", got, g.calls.Load(), want, tt.calls)
			}
		})
	}
}

// IAM can deny calls for some seconds after the role was created. Denied calls are repeated, but not for ever.
func TestPrecheck_consistency(t *testing.T) {
	const event = `RequestType:"Create",ResourceProperties:{RestApiId:"a1",Responses:{ACCESS_DENIED:"ours"}}`
	for denied, want := range map[int32]struct {
		status string
		calls  int32
	}{19: {"SUCCESS", 21}, 20: {"FAILED", 20}} {
		g := &apiGateway{status: 200, body: `{"items":[]}`, denied: denied}
		if got := precheck(t, g, event, "20000"); got.Status != want.status || g.calls.Load() != want.calls {
			t.Errorf("%d denied calls: got %+v after %d calls, want %s after %d", denied, got, g.calls.Load(), want.status, want.calls)
		}
	}
}

// If CloudFormation rejects the answer, the invocation fails, and Lambda repeats it.
func TestPrecheck_rejected(t *testing.T) {
	response := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer response.Close()
	out, err := runPrecheck(t, "", `RequestType:"Delete",ResourceProperties:{},ResponseURL:"`+response.URL+`"`, "20000")
	if err == nil || !strings.Contains(out, "CloudFormation rejected the answer: status 403") {
		t.Errorf("got %v and %s, want an error that names the status", err, out)
	}
}
