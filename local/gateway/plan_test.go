package gateway_test

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

// keyTable is a caller.KeyRecords with one record, which the test changes while the functions run.
type keyTable struct {
	record  caller.Record
	changes int64
}

func (*keyTable) Secrets(context.Context) ([][]byte, error) { return [][]byte{[]byte("secret")}, nil }

func (k *keyTable) Record(_ context.Context, hash string) (caller.Record, bool, error) {
	return k.record, hash == k.record.Hash, nil
}

func (k *keyTable) set(rates map[string]caller.Rate, anchor string) {
	k.changes++
	k.record.Limits = storetest.Must(caller.NewLimits(rates, anchor, opened.Unix()+k.changes))
}

// sold gives r a table with one API key, whose caller has the paid plan. It returns the table and
// the request header with the key.
func sold(r *ruled) (table *keyTable, key string) {
	key = caller.NewAPIKey()
	table = &keyTable{record: caller.Record{ID: "acme", Tier: "paid", Hash: caller.HashAPIKey([]byte("secret"), key)}}
	r.records = caller.NewRemoteRecords(table)
	return table, "X-Api-Key: " + key
}

// month returns the limits of a record that set only the rate of the limit "month".
func month(requests int64) map[string]caller.Rate {
	return map[string]caller.Rate{"month": {Requests: requests}}
}

// A changed record takes effect within a minute, without a restart. The record's limits replace the
// limits of the tier. The usage of the quota does not change. A suspended key gets 401.
func TestPlan_record(t *testing.T) {
	onEach(t, example(t, "plan.json"), ok, func(t *testing.T, r *ruled) {
		table, key := sold(r)
		want := func(status int, limit, remaining string) {
			t.Helper()
			a := r.want(t, "GET /v1/data", []int{status}, key)
			if a.header.Get("X-RateLimit-Limit") != limit || a.header.Get("X-RateLimit-Remaining") != remaining {
				t.Errorf("got the limit %q with %q remaining, want %q with %q", a.header.Get("X-RateLimit-Limit"),
					a.header.Get("X-RateLimit-Remaining"), limit, remaining)
			}
		}
		want(200, "100000", "99999")
		table.set(month(2000000), "31")
		r.now = r.now.Add(time.Minute - 1)
		want(200, "100000", "99998")
		r.now = r.now.Add(time.Second)
		want(200, "2000000", "1999997")
		table.set(month(4), "31")
		r.now = r.now.Add(time.Minute)
		want(200, "4", "0")
		r.want(t, "GET /v1/data", []int{429}, key)
		table.set(nil, "")
		r.now = r.now.Add(time.Minute)
		want(200, "100000", "99995")
		table.record.Suspended = true
		r.want(t, "GET /v1/data", []int{200}, key)
		r.now = r.now.Add(time.Minute)
		r.want(t, "GET /v1/data", []int{401}, key)
		table.record.Suspended = false
		r.now = r.now.Add(time.Minute)
		want(200, "100000", "99993")
	})
}

// counted returns the sum of all values of a metric in the log.
func counted(log, name string) (sum int) {
	for _, match := range regexp.MustCompile(`"`+name+`":(\d+)`).FindAllStringSubmatch(log, -1) {
		n, _ := strconv.Atoi(match[1])
		sum += n
	}
	return sum
}

// If a record's limits are invalid, the limits of the rules document apply to its caller. The
// metric RecordsIgnored counts these requests.
func TestPlan_mistake(t *testing.T) {
	onEach(t, example(t, "plan.json"), ok, func(t *testing.T, r *ruled) {
		table, key := sold(r)
		table.record.Limits = caller.ParseLimits(`{"rates":{"month":"many"},"changed":1}`)
		if a := r.want(t, "GET /v1/data", times(2, 200), key); a.header.Get("X-RateLimit-Limit") != "100000" {
			t.Errorf("got the limit %q, want the limit of the document, 100000", a.header.Get("X-RateLimit-Limit"))
		}
		r.now = r.now.Add(time.Hour)
		r.want(t, "GET /v1/data", times(1, 200), key) // metrics are written at the next request of a later minute
		if got := counted(r.metrics.String(), "RecordsIgnored"); got != 3 {
			t.Errorf("metric RecordsIgnored: got %d, want 3", got)
		}
	})
}
