package faults

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// dynamo is a proxy in front of DynamoDB Local. It can answer with the errors of DynamoDB.
type dynamo struct {
	server  string // URL of DynamoDB Local
	table   string
	address string                       // host:port
	fault   atomic.Pointer[http.Handler] // handles the requests, unless nil
	garbled atomic.Pointer[garbled]      // replaces the response, unless nil
}

// garbled is a response that DynamoDB never returns.
type garbled struct {
	status int
	body   string
}

// newDynamo returns a proxy of the server in DYNAMODB_ENDPOINT, with a table.
func newDynamo(t *testing.T) *dynamo {
	t.Helper()
	endpoint := storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	d := &dynamo{server: target.Host, table: createTable(t, endpoint)}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		Transport:      transport,
		ModifyResponse: d.modify,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fault := d.fault.Load(); fault != nil {
			(*fault).ServeHTTP(w, r)
			return
		}
		// The server completes a request even if the client has disconnected.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r = r.WithContext(context.WithoutCancel(r.Context()))
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	d.address = s.Listener.Addr().String()
	return d
}

func (d *dynamo) answer(fault http.Handler) { d.fault.Store(&fault) }

func (d *dynamo) modify(answer *http.Response) error {
	if garbled := d.garbled.Load(); garbled != nil {
		_ = answer.Body.Close()
		answer.Header.Del("X-Amz-Crc32")
		answer.Header.Del("Content-Length")
		answer.StatusCode = garbled.status
		answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(garbled.body)), int64(len(garbled.body))
	}
	return nil
}

// failing returns a handler that responds with an error of DynamoDB.
func failing(status int, exception, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + exception, "message": message})
	})
}

// createTable creates a table in DynamoDB Local, and deletes it after the test.
func createTable(t *testing.T, endpoint string) string {
	t.Helper()
	ctx, table := context.Background(), "faults-"+rand.Text()
	client := dynamoClient(t, endpoint)
	if _, err := client.CreateTable(ctx, dynamostore.TableInput(table)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); err != nil && !gone {
			t.Error(err)
		}
	})
	return table
}

// dynamoClient returns a client as functions/boot builds it.
func dynamoClient(t *testing.T, endpoint string) *dynamodb.Client {
	t.Helper()
	c, err := clients.Load(lookup("WEIR_LOCAL=true", "NAMESPACE=faults", "STORE=dynamodb://counters", "DYNAMODB_ENDPOINT="+endpoint))
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.DynamoDBClient(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return client
}
