package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// putRecords is an API that counts how often each event was stored.
type putRecords struct {
	lines    map[string]int
	calls    int
	throttle func(call, record int) bool
	fail     error
}

func (s *putRecords) PutRecords(ctx context.Context, in *kinesis.PutRecordsInput, _ ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error) {
	s.calls++
	if s.fail != nil {
		return nil, s.fail
	}
	if *in.StreamName != "decisions" || len(in.Records) > 500 {
		return nil, fmt.Errorf("call: got stream %s and %d records, want decisions and at most 500", *in.StreamName, len(in.Records))
	}
	out := &kinesis.PutRecordsOutput{}
	for i, r := range in.Records {
		if s.throttle != nil && s.throttle(s.calls, i) {
			out.Records = append(out.Records, types.PutRecordsResultEntry{ErrorCode: aws.String("ProvisionedThroughputExceededException")})
			continue
		}
		out.Records = append(out.Records, types.PutRecordsResultEntry{SequenceNumber: aws.String("1")})
		if len(r.Data) > 25_000 || len(*r.PartitionKey) > 256 || !bytes.HasSuffix(r.Data, []byte("\n")) {
			return nil, fmt.Errorf("record: got %d bytes, want at most 25000 and a line end", len(r.Data))
		}
		for line := range strings.Lines(string(r.Data)) {
			s.lines[strings.TrimSuffix(line, "\n")]++
		}
	}
	return out, ctx.Err()
}

func batch(n int) [][]byte {
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = fmt.Appendf(nil, "%0300d", i)
	}
	return lines
}

func TestStream_Send(t *testing.T) {
	for _, c := range []struct {
		name           string
		stream         putRecords
		calls, arrived int
		lost           int
		err            string
	}{
		{name: "all", calls: 1, arrived: 1200},
		{name: "throttled once", stream: putRecords{throttle: func(call, record int) bool { return call == 1 && record%2 == 0 }}, calls: 2, arrived: 1200},
		// A record has at most 25,000 bytes, so it contains 83 lines of 301 bytes (24,983). They are
		// lost together.
		{name: "one record always throttled", stream: putRecords{throttle: func(_, record int) bool { return record == 0 }}, calls: 3, arrived: 1200 - 83, lost: 83, err: "ProvisionedThroughputExceededException"},
		{name: "down", stream: putRecords{fail: errors.New("no such host")}, calls: 1, lost: 1200, err: "kinesis: no such host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.stream.lines = map[string]int{}
				lost, err := stream{&c.stream, "decisions"}.Send(t.Context(), batch(1200))
				if lost != c.lost || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %d lost events, error %v; want %d, %q", lost, err, c.lost, c.err)
				}
				if c.stream.calls != c.calls || len(c.stream.lines) != c.arrived {
					t.Errorf("stream: got %d calls and %d events; want %d and %d", c.stream.calls, len(c.stream.lines), c.calls, c.arrived)
				}
				for line, n := range c.stream.lines {
					if n != 1 {
						t.Fatalf("event %s arrived %d times, want once", line, n)
					}
				}
			})
		})
	}
}

// Send returns when its context ends.
func TestStream_Send_canceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		s := putRecords{lines: map[string]int{}, throttle: func(int, int) bool { return true }}
		begun := time.Now()
		lost, err := stream{&s, "decisions"}.Send(ctx, batch(10))
		if lost != 10 || err == nil || s.calls != 1 || time.Since(begun) != 50*time.Millisecond {
			t.Errorf("got %d lost events, error %v, %d calls after %s; want 10 lost, one call, 50ms", lost, err, s.calls, time.Since(begun))
		}
	})
}
