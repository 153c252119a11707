package records_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/records"
)

// replies are the answers to reads, in order. A read with a nil reply blocks until the attempt times
// out.
type replies []error

// errAnswered is the element of replies for a read that succeeds. It is not an error of the read.
var errAnswered = errors.New("answered")

func (r *replies) GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput,
	error) {
	var o dynamodb.Options
	for _, option := range options {
		option(&o)
	}
	if _, once := o.Retryer.(aws.NopRetryer); !once || aws.ToBool(in.ConsistentRead) {
		return nil, fmt.Errorf("read: got retryer %T and consistent %t, want aws.NopRetryer and false", o.Retryer, aws.ToBool(in.ConsistentRead))
	}
	if len(*r) == 0 {
		return nil, errors.New("got an attempt after the last reply")
	}
	reply := (*r)[0]
	*r = (*r)[1:]
	switch {
	case reply == nil:
		<-ctx.Done()
		return nil, fmt.Errorf("operation error: %w", ctx.Err())
	case errors.Is(reply, errAnswered):
		return &dynamodb.GetItemOutput{}, nil
	}
	return nil, reply
}

// A read that gets no answer or a temporary error is attempted twice. Each attempt has its own
// timeout.
func TestTable_attempts(t *testing.T) {
	const attempt = 300 * time.Millisecond
	busy, wrong := &types.ProvisionedThroughputExceededException{}, &types.ResourceNotFoundException{}
	for name, c := range map[string]struct {
		replies replies
		patient time.Duration // timeout of the request
		took    time.Duration
		want    string // part of the error
	}{
		"answered":                    {replies{errAnswered}, time.Second, 0, ""},
		"a silent connection":         {replies{nil, errAnswered}, time.Second, attempt, ""},
		"nobody":                      {replies{nil, nil}, time.Second, 2 * attempt, "deadline exceeded"},
		"the request ends":            {replies{nil}, attempt / 2, attempt / 2, "deadline exceeded"},
		"busy":                        {replies{busy, errAnswered}, time.Second, 0, ""},
		"busy twice":                  {replies{busy, busy}, time.Second, 0, "ProvisionedThroughputExceeded"},
		"no second attempt: no table": {replies{wrong}, time.Second, 0, "ResourceNotFound"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patient)
				defer cancel()
				begun := time.Now()
				_, err := records.NewTable(&c.replies, "t").Get(ctx, "k")
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(c.replies) > 0 ||
					time.Since(begun) != c.took {
					t.Errorf("got error %v after %s with %d unused replies, want %q after %s and none", err, time.Since(begun), len(c.replies), c.want,
						c.took)
				}
			})
		})
	}
}
