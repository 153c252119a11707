package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/storetest"
)

// cloud is an account of the emulator Moto. The cloud itself answers the calls of CloudFormation. It evaluates no template:
// of the resources in a template without a condition, it creates the tables and the roles that CloudFormation retains, and
// gives each output a fixed value.
type cloud struct {
	url   string
	moto  aws.Config // of clients that call Moto without the cloud
	proxy *httputil.ReverseProxy

	turn sync.Mutex // held during a call of CloudFormation, so a call sees every stack whose creation began before it

	mu      sync.Mutex
	fail    func(action string) string
	stuck   bool // the deletion of stacks fails after it started
	stacks  map[string]*stack
	actions []string
}

type stack struct {
	status, template, resources, outputs string // the last two as XML
}

// outputs are the values of the outputs that a run reads.
var outputs = map[string]string{
	"URL": "https://issuer.execute-api.us-east-1.amazonaws.com/keys", "Api": "api", "Root": "root", "AccessLog": "access", "AccessLogArn": "arn:access", "AuthorizerId": "authorizer", "LayerArn": "arn:layer",
	"LayerPolicyArn": "arn:policy", "LayerVariables": "{}", "RestUrl": "https://api.execute-api.us-east-1.amazonaws.com/e2e", "LayerUrl": "https://layer.lambda-url.us-east-1.on.aws/",
}

// newCloud returns an empty account. It skips the test if Moto does not run.
func newCloud(t *testing.T) *cloud {
	t.Helper()
	address := storetest.Server(t, "moto", "MOTO_ENDPOINT")
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	const header = "X-Moto-Account-Id"
	id, c := fmt.Sprintf("%012d", rand.Uint64N(1e12)), &cloud{stacks: map[string]*stack{}}
	c.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set(header, id)
	}}
	front := httptest.NewServer(c)
	t.Cleanup(front.Close)
	c.url = front.URL
	c.moto = c.config()
	c.moto.BaseEndpoint, c.moto.APIOptions = &address, append(c.moto.APIOptions, smithyhttp.SetHeaderValue(header, id))
	return c
}

// config returns the configuration of clients.
func (c *cloud) config() aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: &c.url, Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "")}
}

// environment returns the variables with which a program uses the account.
func (c *cloud) environment() map[string]string {
	return map[string]string{"AWS_ENDPOINT_URL": c.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}
}

// onCall registers the function fail, which runs before each call. fail returns the error code of the call, such as
// "AccessDenied", or "" for no error. If a call has no action, because its service is not a query service, action is its
// method and path.
func (c *cloud) onCall(fail func(action string) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

// deny makes the calls of an action fail.
func (c *cloud) deny(denied string) {
	c.onCall(func(action string) string { return map[string]string{denied: "AccessDenied"}[action] })
}

// stick makes the deletion of stacks fail after it started.
func (c *cloud) stick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = true
}

// count returns the number of stacks.
func (c *cloud) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.stacks)
}

func (c *cloud) called(action string) (n int) {
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
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	form, _ := url.ParseQuery(string(body)) // not every service uses forms
	action := form.Get("Action")
	if action == "" {
		action = r.Method + " " + r.URL.Path
	}
	formation := slices.Contains([]string{"CreateStack", "DeleteStack", "DescribeStacks", "GetTemplate", "ListStackResources"}, action)
	if formation {
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
	if !formation {
		c.proxy.ServeHTTP(w, r)
		return
	}
	// AWS completes a call although its client has left.
	result, err := c.answer(context.WithoutCancel(r.Context()), action, form)
	if err != nil {
		refuse(w, "ValidationError", err.Error())
		return
	}
	fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
}

// refuse answers with an error of a query service, which clients of other services report by its status.
func refuse(w http.ResponseWriter, code, message string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, "<ErrorResponse><Error>%s%s</Error></ErrorResponse>", element("Code", code), element("Message", message))
}

func element(name, text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder returns no error
	return "<" + name + ">" + b.String() + "</" + name + ">"
}

// answer answers a call of CloudFormation.
func (c *cloud) answer(ctx context.Context, action string, form url.Values) (string, error) {
	name := form.Get("StackName")
	if action == "CreateStack" {
		s, err := c.create(ctx, name, form)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stacks[name] = s
		return element("StackId", name), err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stacks[name]
	switch {
	case s == nil && action == "DeleteStack": // CloudFormation deletes a missing stack without an error
		return "", nil
	case s == nil:
		return "", fmt.Errorf("stack with id %s does not exist", name)
	case action == "DeleteStack" && c.stuck:
		s.status = "DELETE_FAILED"
	case action == "DeleteStack":
		delete(c.stacks, name)
	case action == "GetTemplate":
		return element("TemplateBody", s.template), nil
	case action == "ListStackResources":
		return "<StackResourceSummaries>" + s.resources + "</StackResourceSummaries>", nil
	}
	return "<Stacks><member>" + element("StackName", name) + element("StackStatus", s.status) + element("CreationTime", "2026-11-22T12:00:00Z") + "<Outputs>" + s.outputs + "</Outputs></member></Stacks>", nil
}

// create creates what CloudFormation retains of a stack.
func (c *cloud) create(ctx context.Context, name string, form url.Values) (*stack, error) {
	s := &stack{status: "CREATE_COMPLETE", template: form.Get("TemplateBody")}
	if address := form.Get("TemplateURL"); address != "" {
		at, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		bucket, _, _ := strings.Cut(at.Host, ".s3.")
		object, err := s3.NewFromConfig(c.moto, func(o *s3.Options) { o.UsePathStyle = true }).GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(strings.TrimPrefix(at.Path, "/"))})
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(object.Body)
		if err != nil {
			return nil, err
		}
		s.template = string(body)
	}
	var template struct {
		Resources map[string]struct{ Type, Condition, DeletionPolicy string }
		Outputs   map[string]any
	}
	if err := json.Unmarshal([]byte(s.template), &template); err != nil {
		return nil, err
	}
	values := maps.Clone(outputs)
	for id, r := range template.Resources {
		if r.Condition != "" {
			continue
		}
		physical := name + "-" + id
		s.resources += "<member>" + element("LogicalResourceId", id) + element("PhysicalResourceId", physical) + element("ResourceType", r.Type) + element("ResourceStatus", "CREATE_COMPLETE") + "</member>"
		var err error
		switch {
		case r.DeletionPolicy == "Retain" && r.Type == "AWS::DynamoDB::Table":
			values["RecordsTable"] = physical
			_, err = dynamodb.NewFromConfig(c.moto).CreateTable(ctx, records.TableInput(physical))
		case r.DeletionPolicy == "Retain" && r.Type == "AWS::IAM::Role":
			_, err = iam.NewFromConfig(c.moto).CreateRole(ctx, &iam.CreateRoleInput{RoleName: &physical, AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)})
		}
		if err != nil {
			return nil, err
		}
	}
	for key := range template.Outputs {
		s.outputs += "<member>" + element("OutputKey", key) + element("OutputValue", values[key]) + "</member>"
	}
	return s, nil
}
