package dynamostore_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// answered is a transport without a network. It answers every request with the same item.
type answered []byte

func (a answered) Do(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(a))}, nil
}

// BenchmarkTake measures the processor time of a charged decision, from the caller's ID to the answer. It
// includes the SDK's client, but no network.
func BenchmarkTake(b *testing.B) {
	for name, rate := range map[string]algo.Rate{"token_bucket": bucket, "sliding_window": sliding} {
		limit := storetest.Limit(b, "l", rate)
		id, now := limit.ID.String(), algo.InstantOf(noon)
		item := fmt.Sprintf(`{"pk":{"S":"w/1/user:alice"},"ttl":{"N":"4107592821"},"f%s":{"S":%q},"v%s":{"N":"1"}`, id, limit.Fingerprint(), id)
		if w, ok := limit.Machine().(*algo.Window); ok {
			item += fmt.Sprintf(`,"x%s":{"N":"%d"},"c%s%s":{"N":"7"}`, id, w.Index(now), id, fmt.Sprintf("%d", 7))
		} else {
			item += fmt.Sprintf(`,"t%s":{"N":"%d"}`, id, now.Add(time.Second))
		}
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: aws.String("http://dynamodb.invalid"), Region: "us-east-1", HTTPClient: answered(`{"Attributes":` + item + `}}`),
			Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""), Retryer: aws.NopRetryer{},
		})
		l := storetest.Must(limiter.New(storetest.Must(dynamostore.NewBare(client, dynamostore.Options{Table: "t", Namespace: "w"})),
			limiter.Options{}))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				charges := []limiter.Charge{{Subject: limiter.User("alice"), Limit: limit, Cost: 1}}
				if d, err := l.Take(b.Context(), noon, charges); err != nil || !d.Allowed || d.Reason != limiter.ReasonNone {
					b.Fatalf("got %+v, %v", d, err)
				}
			}
		})
	}
}
