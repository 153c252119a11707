package limiter_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// stackTable is a table in memory that records the functions which are called between the method decide and its update.
type stackTable struct {
	memtable.Table
	calls []string
}

// UpdateItem implements dynamostore.API.
func (s *stackTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
	o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	s.calls = nil
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.HasSuffix(f.Function, ".(*Limiter).decide") {
			return s.Table.UpdateItem(ctx, in, o...)
		}
		s.calls = append(s.calls, f.Function[strings.LastIndexByte(f.Function, '/')+1:])
	}
	panic("no decide on the stack")
}

// A request on an idle subject reaches the store's request by few calls: a reader follows them from decide. The store is
// behind a breaker, as in the functions.
func TestLimiter_depth(t *testing.T) {
	const most = 11
	for _, a := range []algo.Algorithm{algo.TokenBucket, algo.SlidingWindow} {
		table := &stackTable{}
		store := storetest.Must(dynamostore.New(table, dynamostore.Options{Table: "t", Namespace: "n"}))
		l := storetest.Must(limiter.New(store, limiter.Options{}))
		charge := limiter.Charge{Subject: user, Limit: limit(t, limiter.Limit{Name: "a", Rate: algo.Rate{Algorithm: a, Requests: 10,
			Window: time.Minute}}), Cost: 1}
		for i := range 2 { // the second request finds the subject in the denial cache
			if d := take(t, l, charge); !d.Allowed || d.StoreCalls != 1 {
				t.Fatalf("%s: request %d: got %+v, want an admission by one call", a, i+1, d)
			}
			t.Logf("%s: %d calls from decide to the store's request: %s", a, len(table.calls), strings.Join(table.calls, " < "))
			if len(table.calls) > most {
				t.Errorf("%s: request %d: got %d calls on the stack, want at most %d", a, i+1, len(table.calls), most)
			}
		}
	}
}
