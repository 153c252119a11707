package resilient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter/resilient"
)

// slowWriter is a connection whose writes return late, as on a busy machine.
type slowWriter struct{ net.Conn }

func (c slowWriter) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	time.Sleep(time.Millisecond) // in a synctest bubble: until all other goroutines wait
	return n, err
}

// The client reads an answer that arrives before the write of the request returns.
func TestHTTPClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		go func() {
			request, err := http.ReadRequest(bufio.NewReader(far))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			const answer = `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`
			_, _ = fmt.Fprintf(far, "HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n", len(answer))
			time.Sleep(time.Second)
			_, _ = io.WriteString(far, answer)
		}()
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String("http://dynamodb.invalid"), Region: "us-east-1", Retryer: aws.NopRetryer{},
			Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
			HTTPClient: resilient.HTTPClient{Doer: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
				t.DialContext = func(context.Context, string, string) (net.Conn, error) { return slowWriter{near}, nil }
				t.DisableKeepAlives = true
			})},
		})
		_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("t"),
			Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}}})
		if failed := (*types.ConditionalCheckFailedException)(nil); !errors.As(err, &failed) {
			t.Errorf("got error %v, want the answer ConditionalCheckFailedException", err)
		}
		time.Sleep(2 * time.Second) // the server ends
	})
}

// doer keeps the body of the last request.
type doer struct{ body io.ReadCloser }

func (d *doer) Do(r *http.Request) (*http.Response, error) {
	d.body = r.Body
	return nil, http.ErrNotSupported
}

// A request without a body keeps that form. Otherwise net/http would send it in chunks, which AWS rejects.
func TestHTTPClient_noBody(t *testing.T) {
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		sent := &doer{}
		_, _ = resilient.HTTPClient{Doer: sent}.Do(&http.Request{Body: body})
		if sent.body != body {
			t.Errorf("got body %#v, want %#v", sent.body, body)
		}
	}
}
