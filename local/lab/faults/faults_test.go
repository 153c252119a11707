package faults

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
)

// poisoned returns the begin function of a fault that adds a toxic.
func poisoned(direction, kind string, attributes map[string]any) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); w.network.poison(t, direction, kind, attributes) }
}

func healed(t *testing.T, w *world) { t.Helper(); w.network.heal(t) }

// killed is a fault of an environment. The store has no fault.
var killed = fault{name: "an environment is killed in the middle of a decision", begin: kill, count: countsAll, extra: 1}

// networkFaults are faults of the network. They apply to every store.
var networkFaults = []fault{
	{name: "answers come late", begin: poisoned("down", "latency", map[string]any{"latency": 700}), end: healed, sees: limiter.ReasonTimeout,
		count: countsSome},
	{name: "requests are lost", begin: poisoned("up", "timeout", nil), end: healed, sees: limiter.ReasonTimeout, count: countsNone},
	{name: "answers are lost", begin: poisoned("down", "timeout", nil), end: healed, sees: limiter.ReasonTimeout, count: countsSome},
	{name: "1 kB/s", begin: poisoned("up", "bandwidth", map[string]any{"rate": 1}), end: healed, sees: limiter.ReasonTimeout,
		count: countsSome},
	{name: "connections are refused", begin: func(_ *testing.T, w *world) { w.network.proxy.Stop() }, end: healed,
		sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "connections are reset", begin: poisoned("up", "reset_peer", nil), end: healed, sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "answers are cut off", begin: poisoned("down", "limit_data", map[string]any{"bytes": 3}), end: healed,
		sees: limiter.ReasonUnavailable, count: countsSome},
	{name: "connections close slowly", begin: poisoned("down", "slow_close", map[string]any{"delay": 700}), end: healed, count: countsAll},
	{name: "idle connections were closed", begin: func(t *testing.T, w *world) {
		t.Helper()
		within(t.Context(), 1100*time.Millisecond) // a request on a connection that was used within a second is not repeated
		w.network.hangUp(t)
	}, count: countsAll},
	{name: "idle connections lose all data", begin: func(t *testing.T, w *world) { t.Helper(); w.network.forget(t) }, end: healed,
		sees: limiter.ReasonTimeout, once: true, count: countsSome},
	killed,
}

var redisFaults = []fault{
	{name: "the server hangs", begin: signalled(syscall.SIGSTOP), end: signalled(syscall.SIGCONT), sees: limiter.ReasonTimeout,
		count: countsSome},
	{name: "the server restarts", begin: func(t *testing.T, w *world) { t.Helper(); w.server.kill(t) },
		end:  func(t *testing.T, w *world) { t.Helper(); w.server.run(t) },
		sees: limiter.ReasonUnavailable, count: countsLost},
	{name: "FLUSHALL", begin: done("flushall"), count: countsAnew},
	{name: "SCRIPT FLUSH", begin: done("script flush"), count: countsAll},
	{name: "out of memory", begin: done("config set maxmemory 1"), end: done("config set maxmemory 0"), sees: limiter.ReasonFull, lives: true,
		count: countsNone},
	{name: "the server is a replica", begin: func(t *testing.T, w *world) {
		t.Helper()
		replicate(t, w)
		w.network.lead(t, w.replica.address)
	}, end: func(t *testing.T, w *world) {
		t.Helper()
		w.network.lead(t, w.server.address)
	}, sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "failover to a replica", begin: func(t *testing.T, w *world) {
		t.Helper()
		replicate(t, w)
		w.server.kill(t)
	}, end: func(t *testing.T, w *world) {
		t.Helper()
		w.replica.do(t, "replicaof", "no", "one")
		w.network.lead(t, w.replica.address)
		w.observe(t, w.replica.address)
	}, sees: limiter.ReasonUnavailable, count: countsNone},
}

var dynamoFaults = []fault{
	{name: "ProvisionedThroughputExceededException", begin: answered(http.StatusBadRequest, "ProvisionedThroughputExceededException",
		"Throughput exceeds the current capacity of your table or index."),
		end: restored, sees: limiter.ReasonThrottled, count: countsNone},
	{name: "ThrottlingException", begin: answered(http.StatusBadRequest, "ThrottlingException",
		"Rate of requests exceeds the allowed throughput."), end: restored, sees: limiter.ReasonThrottled, count: countsNone},
	{name: "RequestLimitExceeded", begin: answered(http.StatusBadRequest, "RequestLimitExceeded",
		"Throughput exceeds the current throughput limit for your account."), end: restored, sees: limiter.ReasonThrottled, count: countsNone},
	{name: "status 500", begin: answered(http.StatusInternalServerError, "InternalServerError", "The request could not be processed."),
		end: restored, sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "status 500 after the write", begin: replaced(http.StatusInternalServerError,
		`{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}`), end: restored, sees: limiter.ReasonUnavailable, count: countsSome},
	{name: "status 503 without JSON", begin: func(_ *testing.T, w *world) {
		w.dynamo.answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte("<html>busy</html>"))
		}))
	}, end: restored, sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "the item is too large", begin: answered(http.StatusBadRequest, "ValidationException",
		"Item size to update has exceeded the maximum allowed size"), end: restored, sees: limiter.ReasonUnavailable, lives: true,
		count: countsNone},
	{name: "the table does not exist", begin: answered(http.StatusBadRequest, "ResourceNotFoundException", "Requested resource not found"),
		end: restored, sees: limiter.ReasonUnavailable, count: countsNone},
	{name: "the answer is not JSON", begin: replaced(http.StatusOK, `{"Attributes":{"pk":`), end: restored, sees: limiter.ReasonUnavailable,
		count: countsSome},
	{name: "the answer cannot be read", begin: func(t *testing.T, w *world) {
		t.Helper()
		item := `"pk":{"S":"key"}`
		for _, policy := range policies {
			item += fmt.Sprintf(`,"f%s":{"S":"no fingerprint"}`, w.charge(client, policy).Limit.ID)
		}
		replaced(http.StatusOK, `{"Attributes":{`+item+`}}`)(t, w)
	}, end: restored, sees: limiter.ReasonUnavailable, lives: true, count: countsSome},
	{name: "the answer has no item", begin: replaced(http.StatusOK, `{}`), end: restored, sees: limiter.ReasonUnavailable, lives: true,
		count: countsSome},
}

func signalled(signal syscall.Signal) func(*testing.T, *world) {
	return func(t *testing.T, w *world) { t.Helper(); w.server.signal(t, signal) }
}

// done returns a begin or end function of a fault. The function sends a command to the server.
func done(command string) func(*testing.T, *world) {
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	return func(t *testing.T, w *world) { t.Helper(); w.server.do(t, args...) }
}

// replicate gives the server a synchronized replica.
func replicate(t *testing.T, w *world) {
	t.Helper()
	w.replica = newServer(t)
	host, port := w.server.hostPort()
	w.replica.do(t, "replicaof", host, port)
	eventually(t, "the replica is synchronized", func() bool {
		return strings.Contains(w.replica.do(t, "info", "replication").(string), "master_link_status:up")
	})
	w.server.do(t, "wait", 1, 0)
}

func answered(status int, exception, message string) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) { w.dynamo.answer(failing(status, exception, message)) }
}

func replaced(status int, body string) func(*testing.T, *world) {
	return func(_ *testing.T, w *world) { w.dynamo.garbled.Store(&garbled{status, body}) }
}

func restored(_ *testing.T, w *world) {
	w.dynamo.fault.Store(nil)
	w.dynamo.garbled.Store(nil)
}

// kill starts a decision in another process. It kills the other process after the store has counted the
// request, and before the answer of the store arrives.
func kill(t *testing.T, w *world) {
	t.Helper()
	policy := policies[0]
	counted := w.direct.counted(t, client, policy)
	n := connect(t, w.network.proxy.Upstream)
	// if a variable has two values, the first applies
	p := startProcess(t, append([]string{w.at(n.address()), "STORE_TIMEOUT=999ms"}, w.variables...))
	n.poison(t, "down", "timeout", nil)
	p.ask(t)
	eventually(t, "the decision is counted", func() bool { return w.direct.counted(t, client, policy) > counted })
	p.kill(t)
}

// overRedis returns an environment that uses a new Redis server.
func overRedis(t *testing.T, w *world) {
	t.Helper()
	w.server = newServer(t)
	w.network = connect(t, w.server.address)
	w.setDeadline(deadlineRedis)
	w.at = func(address string) string { return "STORE=redis://" + address }
	w.build(t, w.network.address(), w.server.address)
}

// overDynamoDB returns an environment that uses a new table.
func overDynamoDB(t *testing.T, w *world) {
	t.Helper()
	w.dynamo = newDynamo(t)
	w.network = connect(t, w.dynamo.address)
	w.setDeadline(deadlineDynamoDB)
	w.at = func(address string) string { return "DYNAMODB_ENDPOINT=http://" + address }
	w.build(t, w.network.address(), w.dynamo.server, "STORE=dynamodb://"+w.dynamo.table)
}

// stores are the stores of the tests. open sets up a world with a store.
var stores = []struct {
	name   string
	open   func(*testing.T, *world)
	faults []fault
}{
	{"DynamoDB", overDynamoDB, slices.Concat(networkFaults, companyFaults, dynamoFaults)},
	{"Redis", overRedis, slices.Concat(networkFaults, companyFaults, redisFaults)},
	{"Redis Cluster", overCluster, clusterFaults},
}

// Ten faults of a store run one after another, and these groups side by side, because the tests mostly wait. The
// label of a goroutine shows to which group its test belongs.
func TestFaults(t *testing.T) {
	t.Cleanup(func() { noGoroutines(t, "") })
	for _, store := range stores {
		for faults := range slices.Chunk(store.faults, 10) {
			t.Run(store.name, func(t *testing.T) {
				t.Parallel()
				group := t.Name()
				pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels(groupLabel, group)))
				for _, f := range faults {
					t.Run(f.name, func(t *testing.T) { f.test(t, group, store.open) })
				}
			})
		}
	}
}
