package dynamostore_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/storetest"
)

// unanswered is an HTTP client that loses each request.
type unanswered struct{ requests int }

func (u *unanswered) Do(*http.Request) (*http.Response, error) {
	u.requests++
	return nil, io.ErrUnexpectedEOF
}

// A credit and a refund are sent once, also by a client that keeps its default retries, because a second copy would
// create quota.
func TestStore_sentOnce(t *testing.T) {
	limit, wire := storetest.Limit(t, "a", sharedHour), &unanswered{}
	client := dynamodb.New(dynamodb.Options{Region: "eu-west-1", HTTPClient: wire,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")})
	store := open(client)
	now := algo.InstantOf(noon)
	_, credited, err := store.Credit(t.Context(), now, limiter.User("a"), limit, algo.WindowOf(limit.Machine()).Index(now), 5)
	if credited || !errors.Is(err, limiter.ErrUnavailable) || wire.requests != 1 {
		t.Errorf("got credited %t, %d requests and %v, want 1 request and %v", credited, wire.requests, err, limiter.ErrUnavailable)
	}
	other := storetest.Limit(t, "b", algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour})
	charges := []limiter.Charge{{Subject: limiter.User("a"), Limit: other, Cost: 1}}
	results := admit(t, open(&memtable.Table{}), now, charges...)
	_, err = store.Settle(t.Context(), now, limiter.User("a"), charges, results, 0)
	if !errors.Is(err, limiter.ErrUnavailable) || wire.requests != 2 {
		t.Errorf("refund: got %d requests and %v, want 1 more and %v", wire.requests-1, err, limiter.ErrUnavailable)
	}
}

var sharedHour = algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: time.Hour, Regions: algo.Regions{Of: 2}}

// An item from which share moves every few windows does not grow, although its region has no requests.
func TestStore_Debit_dead(t *testing.T) {
	for _, known := range []bool{true, false} {
		rate, table := sharedHour, &memtable.Table{}
		rate.Requests = 1000
		store, limit, seen := open(table), storetest.Limit(t, "a", rate), algo.Result{}
		for i := range 50 {
			now := algo.InstantOf(noon.Add(time.Duration(5*i) * time.Hour))
			index := algo.WindowOf(limit.Machine()).Index(now)
			for range 2 {
				if !known { // the second debit then finds what the first one has left
					seen = algo.Result{}
				}
				if moved, err := store.Debit(t.Context(), now, limiter.User("a"), limit, index, 1, &seen); err != nil || moved == 0 {
					t.Fatalf("window %d: got %d moved and error %v, want some", i, moved, err)
				}
			}
		}
		for _, item := range table.Items {
			if len(item) > 9 {
				t.Errorf("state of the last debit known %t: got %d attributes, want at most 9: %v", known, len(item), item)
			}
		}
	}
}

// A debit during a reset of an item whose moved share was of an old window is not lost. The same holds for a charge during a
// debit that converts a state.
func TestStore_shares_races(t *testing.T) {
	var table memtable.Table
	happens := func() {}
	other, slow := open(&table), open(&crowded{&table, func() { happens() }})
	limit, user, now := storetest.Limit(t, "a", sharedHour), limiter.User("a"), algo.InstantOf(noon)
	debit := func(s *dynamostore.Store, l *limiter.Limit) int64 {
		t.Helper()
		return storetest.Must(s.Debit(t.Context(), now, user, l, algo.WindowOf(l.Machine()).Index(now), 1, new(algo.Result)))
	}
	take := func() {
		t.Helper()
		admit(t, other, now, limiter.Charge{Subject: user, Limit: limit, Cost: 1})
	}
	state := func() algo.State {
		t.Helper()
		entries := storetest.Must(other.Inspect(t.Context(), user))
		if len(entries) != 1 {
			t.Fatalf("got %+v, want one limit", entries)
		}
		return entries[0].State
	}
	debit(other, limit)
	now = now.Add(3 * time.Hour)
	take()
	moved := int64(0)
	happens = func() {
		happens = func() {}
		moved = debit(other, limit)
	}
	if err := slow.Reset(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	if s := state(); moved == 0 || s.Moved() != moved {
		t.Errorf("a debit of %d during a reset: got %+v, want it kept", moved, s)
	}
	next := *limit
	next.Rate.Requests, next.Version = 30, limit.Version+1
	happens = func() { // the first attempt expects no state
		happens = func() {
			happens = func() {}
			take()
		}
	}
	before, l := state(), storetest.Must(limiter.NewLimit(next))
	gave, err := slow.Debit(t.Context(), now, user, l, algo.WindowOf(l.Machine()).Index(now), 1, new(algo.Result))
	if s := state(); !errors.Is(err, limiter.ErrContended) || s.Count != before.Count+1 || s.Moved() != before.Moved() {
		t.Errorf("a charge during a debit that converts: got %d moved, error %v and %+v, want the charge in %+v and %v", gave, err, s, before,
			limiter.ErrContended)
	}
}

// A debit during a reset of an item whose limit was not yet shared when the reset read it is not lost.
func TestStore_Reset_sharedMeanwhile(t *testing.T) {
	var table memtable.Table
	happens := func() {}
	other, slow := open(&table), open(&crowded{&table, func() { happens() }})
	user, now, rate := limiter.User("a"), algo.InstantOf(noon), sharedHour
	shared := storetest.Limit(t, "shared", rate)
	index := algo.WindowOf(shared.Machine()).Index(now)
	take := func(l *limiter.Limit) algo.State {
		t.Helper()
		return admit(t, other, now, limiter.Charge{Subject: user, Limit: l, Cost: 1})[0].State
	}
	debit := func(l *limiter.Limit) int64 {
		t.Helper()
		return storetest.Must(other.Debit(t.Context(), now, user, l, index, 1, new(algo.Result)))
	}
	rate.Regions = algo.Regions{}
	each := storetest.Limit(t, "a", rate)
	later := storetest.Must(limiter.NewLimit(limiter.Limit{Name: "a", ID: each.ID, Rate: sharedHour, Version: each.Version + 1}))
	take(each)
	debit(shared) // a reset keeps the item
	moved := int64(0)
	happens = func() {
		happens = func() {}
		take(later)
		moved = debit(later)
	}
	if err := slow.Reset(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	if s := take(later); moved == 0 || s.Count != 1 || s.Moved() != moved {
		t.Errorf("a debit of %d during a reset: got %+v, want it kept", moved, s)
	}
}

// A debit and a credit do not shorten the life of an item that another limit needs for longer, such as a limit of newer rules.
func TestStore_shares_ttl(t *testing.T) {
	user, now, limit := limiter.User("a"), algo.InstantOf(noon), storetest.Limit(t, "a", sharedHour)
	month := storetest.Limit(t, "month", algo.Rate{Algorithm: algo.FixedWindow, Requests: 10, Window: 30 * 24 * time.Hour})
	index := algo.WindowOf(limit.Machine()).Index(now)
	for name, move := range map[string]func(*dynamostore.Store) error{
		"debit": func(s *dynamostore.Store) error {
			_, err := s.Debit(t.Context(), now, user, limit, index, 1, new(algo.Result))
			return err
		},
		"credit": func(s *dynamostore.Store) error {
			_, _, err := s.Credit(t.Context(), now, user, limit, index, 1)
			return err
		},
	} {
		var table memtable.Table
		store := open(&table)
		results := admit(t, store, now, limiter.Charge{Subject: user, Limit: month, Cost: 5})
		if err := move(store); err != nil {
			t.Fatal(err)
		}
		expiry := table.Items[user.Key("n")][dynamostore.TTLAttribute].(*types.AttributeValueMemberN)
		seconds, idle := storetest.Must(strconv.ParseInt(expiry.Value, 10, 64)), results[0].Machine.Idle(results[0].State).Time()
		if time.Unix(seconds, 0).Before(idle) {
			t.Errorf("%s: got an expiry at %d s, want at least %d s, when the other limit counts nothing", name, seconds, idle.Unix())
		}
	}
}
