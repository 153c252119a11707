// Package accounttest deploys a template into Moto, an emulator of AWS, for tests of package account. The
// clouds of a test run share one Moto, and each [Cloud] is a separate account.
//
// Moto answers the calls of DynamoDB, Lambda, IAM, API Gateway, CloudWatch, CloudWatch Logs and SNS. A
// [Cloud] answers these calls itself, because Moto does not support them:
//
//   - CloudFormation. Moto evaluates the template and creates the types that it knows, functions without their layers. The
//     Cloud creates alarms and HTTP APIs with calls to Moto. Other resources have a name, but do not exist. A drift detection
//     finds only the differences that [Cloud.Drift] seeds.
//   - iam:SimulatePrincipalPolicy. The Cloud evaluates the policies that Moto has.
//   - cloudwatch:DescribeAlarmHistory. The history has one action if the alarm is in the state ALARM.
//   - cloudwatch:GetMetricData of a SEARCH expression. It finds one metric.
//
// Moto ignores the conditions of filter patterns of JSON log lines: every line matches.
package accounttest

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/weir-limits/weir/limiter/storetest"
)

// Region is the region of a Cloud.
const Region = "us-east-1"

// ExistingAPI is the name of the REST API that a stack of a release limits.
const ExistingAPI = "existing"

// Cloud is an emulated account.
type Cloud struct {
	// URL is the endpoint of every service.
	URL   string
	moto  string // the endpoint of Moto
	id    string // the number of the account in Moto
	proxy *httputil.ReverseProxy

	turn sync.Mutex // held while the Cloud itself answers a call, so a call sees every stack whose creation began before it

	mu      sync.Mutex
	fail    func(action string) string
	stuck   bool
	drifted []string // logical ids
	stacks  map[string]*stack
	actions []string
}

type stack struct {
	template   []byte
	outputs    map[string]string
	parameters map[string]string
	status     string
	physical   map[string]string // by logical id
	types      map[string]string // by logical id
	order      []string
}

// accountHeader selects the account of a call of Moto.
const accountHeader = "X-Moto-Account-Id"

// Start returns an empty account. It skips the test if Moto does not run.
func Start(t *testing.T) *Cloud {
	t.Helper()
	moto := storetest.Server(t, "moto", "MOTO_ENDPOINT")
	target, err := url.Parse(moto)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cloud{moto: moto, id: fmt.Sprintf("%012d", rand.Uint64N(1e12)), stacks: map[string]*stack{}}
	c.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set(accountHeader, c.id)
	}}
	front := httptest.NewServer(c)
	t.Cleanup(front.Close)
	c.URL = front.URL
	return c
}

// Config returns the configuration of clients.
func (c *Cloud) Config() aws.Config {
	return aws.Config{Region: Region, BaseEndpoint: &c.URL, Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "")}
}

// Environment returns the variables with which a program uses the account.
func (c *Cloud) Environment() map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL": c.URL, "AWS_REGION": Region, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
}

// OnCall registers the function fail, which runs before each call. fail returns the error code of the call,
// such as "AccessDenied", or "" for no error. If a call has no action, because its service is not a query
// service, action is its method and path.
func (c *Cloud) OnCall(fail func(action string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

// Deny makes the calls of an action fail.
func (c *Cloud) Deny(denied string) {
	c.OnCall(func(action string) string {
		if action == denied {
			return "AccessDenied"
		}
		return ""
	})
}

// Stick makes the deletion of stacks fail after it started.
func (c *Cloud) Stick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = true
}

// Deploy creates a stack from a template with values of its parameters.
func (c *Cloud) Deploy(t *testing.T, name string, template []byte, parameters map[string]string) {
	t.Helper()
	in := &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(string(template))}
	for key, value := range parameters {
		in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &key, ParameterValue: &value})
	}
	if _, err := cloudformation.NewFromConfig(c.Config()).CreateStack(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// Drift makes drift detection find another Name of resources.
func (c *Cloud) Drift(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drifted = ids
}

// DeployedIn makes the stack of a name have another template in one region, in which a text is replaced, until undo. Without
// it, each region has the same stack.
func (c *Cloud) DeployedIn(region, name, old, replacement string) (undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, there := region+"/"+name, *c.stacks[name]
	there.template = bytes.ReplaceAll(there.template, []byte(old), []byte(replacement))
	c.stacks[key] = &there
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.stacks, key)
	}
}

// regionField is the field of a call's form to which ServeHTTP adds the region of the call.
const regionField = "Region"

// regionOf returns the region for which a call is signed.
func regionOf(r *http.Request) string {
	if scope := strings.Split(r.Header.Get("Authorization"), "/"); len(scope) > 2 {
		return scope[2]
	}
	return Region
}

// Stacks returns the number of stacks.
func (c *Cloud) Stacks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.stacks)
}

// Called returns the number of calls of an action of a query service.
func (c *Cloud) Called(action string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.actions {
		if a == action {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body)) // not every service uses forms
	form.Set(regionField, regionOf(r))
	action := form.Get("Action")
	if action == "" {
		action = r.Method + " " + r.URL.Path
	}
	answer := map[string]func(context.Context, url.Values) (string, error){
		"CreateStack": c.createStack, "DeleteStack": c.deleteStack, "DescribeStacks": c.describeStacks,
		"ListStackResources": c.listStackResources, "GetTemplate": c.getTemplate,
		"DetectStackDrift": c.detectDrift, "DescribeStackDriftDetectionStatus": c.driftStatus, "DescribeStackResourceDrifts": c.resourceDrifts,
		"SimulatePrincipalPolicy": c.simulate, "DescribeAlarmHistory": c.alarmHistory, "GetMetricData": c.metricData,
	}[action]
	if answer != nil {
		c.turn.Lock()
		defer c.turn.Unlock()
	}
	c.mu.Lock()
	c.actions = append(c.actions, action)
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if code := fail(action); code != "" {
			refuse(w, code, "refused by the test")
			return
		}
	}
	if answer == nil {
		c.proxy.ServeHTTP(w, r)
		return
	}
	// AWS completes a call although its client has left.
	result, err := answer(context.WithoutCancel(r.Context()), form)
	if err != nil {
		refuse(w, "ValidationError", err.Error())
		return
	}
	fmt.Fprintf(w, "<%sResponse><%sResult>%s</%sResult></%sResponse>", action, action, result, action, action)
}

// refuse answers with an error of a query service, which clients of other services report by its status.
func refuse(w http.ResponseWriter, code, message string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, escape(message))
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder returns no error
	return b.String()
}

func element(name, text string) string { return "<" + name + ">" + escape(text) + "</" + name + ">" }

// template is what a Cloud reads of a template.
type template struct {
	Parameters map[string]parameter `json:",omitempty"`
	Conditions map[string]any       `json:",omitempty"`
	Resources  map[string]resource
	Outputs    map[string]output
}

type parameter struct {
	Type    string
	Default *string `json:",omitempty"`
}

type resource struct {
	Type           string
	Condition      string         `json:",omitempty"`
	DeletionPolicy string         `json:",omitempty"`
	Properties     map[string]any `json:",omitempty"`
}

type output struct {
	Condition string `json:",omitempty"`
	Value     any
}
