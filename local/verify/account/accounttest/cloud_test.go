package accounttest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// losing starts a proxy of Moto that loses the answer to the first CreateStack.
func losing(t *testing.T) {
	t.Helper()
	moto, err := url.Parse(storetest.Server(t, "moto", "MOTO_ENDPOINT"))
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(moto)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.Request.ContentLength > 10_000 && !lost.Swap(true) { // only CreateStack is so large
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	t.Setenv("MOTO_ENDPOINT", front.URL)
}

// CreateStack creates the stack although its client has left, and calls that arrive later see the stack. A
// repeated CreateStack changes nothing, also if Moto's answer is lost.
func TestCloud_createStack(t *testing.T) {
	losing(t)
	c := accounttest.Start(t)
	template, err := os.ReadFile("../../../../infra/golden/dynamodb.template.json")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	arrived := make(chan struct{})
	c.OnCall(func(action string) string {
		if action == "CreateStack" && ctx.Err() == nil {
			leave()
			<-arrived // after the client has left
		}
		return ""
	})
	client := cloudformation.NewFromConfig(c.Config())
	in := &cloudformation.CreateStackInput{StackName: aws.String("Weir-test"), TemplateBody: aws.String(string(template))}
	if _, err := client.CreateStack(ctx, in); err == nil {
		t.Fatal("CreateStack without its client: got no error, want one")
	}
	close(arrived)
	if _, err := client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: in.StackName}); err != nil {
		t.Errorf("stack of a client that left: got error %v, want the stack", err)
	}
	if _, err := client.CreateStack(t.Context(), in); err != nil {
		t.Errorf("repeated CreateStack: got error %v, want none", err)
	}
	tables, err := dynamodb.NewFromConfig(c.Config()).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil || len(tables.TableNames) != 2 || c.Stacks() != 1 {
		t.Errorf("got %d stacks with the tables %v, %v, want one with two", c.Stacks(), tables, err)
	}
}
