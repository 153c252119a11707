package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/serve"
)

// keyValueStore answers the calls of the client of a KeyValueStore.
type keyValueStore struct {
	mu     sync.Mutex
	values map[string]string
	denied bool
}

type pair struct {
	Key   string
	Value string `json:",omitempty"`
}

// ServeHTTP implements http.Handler.
func (s *keyValueStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, key, keys := strings.Cut(r.URL.Path, "/keys")
	key = strings.TrimPrefix(key, "/")
	var answer any = struct{}{}
	switch {
	case s.denied:
		w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodPost:
		var changes struct{ Puts, Deletes []pair }
		_ = json.NewDecoder(r.Body).Decode(&changes)
		for _, p := range changes.Puts {
			s.values[p.Key] = p.Value
		}
		for _, p := range changes.Deletes {
			delete(s.values, p.Key)
		}
	case !keys:
		w.Header().Set("ETag", "1")
	case key == "":
		var all struct{ Items []pair }
		for name, value := range s.values {
			all.Items = append(all.Items, pair{name, value})
		}
		answer = all
	case s.values[key] == "":
		w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
		w.WriteHeader(http.StatusNotFound)
	default:
		answer = pair{key, s.values[key]}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *keyValueStore) copy() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

const listARN = "arn:aws:cloudfront::123456789012:key-value-store/list"

// newKeyValueStore returns an empty KeyValueStore, and the variables with which commands reach it.
func newKeyValueStore(t *testing.T) (list *keyValueStore, environment []string) {
	t.Helper()
	list = &keyValueStore{values: map[string]string{}}
	server := httptest.NewServer(list)
	t.Cleanup(server.Close)
	return list, []string{ // the client adds the account to the host, so a proxy must answer
		"AWS_ENDPOINT_URL_CLOUDFRONT_KEYVALUESTORE=http://list.example", "HTTP_PROXY=" + server.URL, "http_proxy=" + server.URL, "NO_PROXY=", "no_proxy=",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b",
	}
}

func (s *keyValueStore) set(values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.values, values)
}

// deny makes all calls fail, or not.
func (s *keyValueStore) deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// run runs a command with the variables of a KeyValueStore.
func run(t *testing.T, environment []string, args ...string) (out string, failed bool) {
	t.Helper()
	text, err := commandtest.Command(t, args, environment...).CombinedOutput()
	return string(text), err != nil
}

// usage and explain show the entry of a caller; reset and keys remove their callers from the list of a distribution.
func TestEdgeList(t *testing.T) {
	recordsTable(t)
	createKey(t, "--id", "acme")
	c := edge.Config{Version: 7, Secret: "secret", IPv6Bits: 64}
	address, first, second := c.Key(c.Address(netip.MustParseAddr("192.0.2.1"))), c.Key(edge.APIKey("a")), c.Key(edge.APIKey("b"))
	list, environment := newKeyValueStore(t)
	const arn = listARN
	fill := func() {
		until := time.Now().Add(time.Hour)
		value, _ := c.Value()
		list.set(map[string]string{
			edge.ConfigKey: value, address: edge.Entry{Until: until, Version: 7, Name: "a"}.Value(),
			first: edge.Entry{Until: until, Version: 7, Name: "a", Owner: c.Owner("acme")}.Value(), second: edge.Entry{Until: until, Version: 7, Name: "a", Owner: c.Owner("other")}.Value(),
		})
	}
	storetest.Must(checkout.MakeTable(t.Context(), storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT"), checkout.Table))
	store := []string{"--store", "dynamodb", "--table", checkout.Table, "--namespace", checkouttest.Namespace(), "--rules", "../serve/testdata/design.json", "--yes"}
	for _, test := range []struct {
		args []string
		gone string
	}{
		{append([]string{"reset", "ip:192.0.2.1"}, store...), address},
		{append([]string{"reset", "apikey:acme"}, store...), first},
		{[]string{"keys", "set", "acme", "--tier", "free"}, first},
		{[]string{"keys", "revoke", "acme"}, first},
	} {
		fill()
		out, err := commandtest.Command(t, append(test.args, "--edge-list", arn), environment...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "removed from the list of the distribution: 1\n") {
			t.Fatalf("%q: got %v, %s; want one removed entry", test.args, err, out)
		}
		left := list.copy()
		for _, key := range []string{address, first, second} {
			if got := left[key] == ""; got != (key == test.gone) {
				t.Errorf("%q: entry %s: got removed %t", test.args, key, got)
			}
		}
	}
	fill()
	for command, want := range map[string]string{"usage ip:192.0.2.1": "ip:192.0.2.1", "usage apikey:acme": "apikey:acme", "explain GET /api/v1/search --ip 192.0.2.1": "ip:192.0.2.1"} {
		args := append(append(strings.Fields(command), store[:len(store)-1]...), "--edge-list", arn)
		out, failed := run(t, environment, args...)
		if failed || !strings.Contains(out, "\nedge the distribution refuses "+want+" until ") || !strings.Contains(out, "by limit a of rules of version 7; weir reset "+want+" removes the entry\n") {
			t.Errorf("%s: got failed %t, %s; want the entry", command, failed, out)
		}
	}
	list.deny(true)
	if out, failed := run(t, environment, append(append([]string{"usage", "ip:192.0.2.1"}, store[:len(store)-1]...), "--edge-list", arn)...); failed || !strings.Contains(out, "the list of the distribution cannot be read") {
		t.Errorf("usage without permission: got failed %t, %s; want a note", failed, out)
	}
	if code, _, errs := weir(t, "reset", "ip:192.0.2.1", "--edge-list", arn); code != 2 || !strings.Contains(errs, "--edge-list: requires --store") {
		t.Errorf("reset without --store: got exit %d, stderr %q, want exit 2", code, errs)
	}
	if code, _, errs := weir(t, "keys", "revoke", "acme", "--local", "--edge-list", arn); code != 2 || !strings.Contains(errs, "--edge-list and --local") {
		t.Errorf("keys --local: got exit %d, stderr %q, want exit 2", code, errs)
	}
}

// publish and rollback end the entries of older rules in the list. If they cannot, they say what to do, and it works.
func TestEdgeList_rules(t *testing.T) {
	recordsTable(t)
	list, environment := newKeyValueStore(t)
	value, _ := edge.Config{Version: 7, Secret: "secret"}.Value()
	list.set(map[string]string{edge.ConfigKey: value})
	version := func() (v int64) {
		t.Helper()
		var c edge.Config
		if err := json.Unmarshal([]byte(list.copy()[edge.ConfigKey]), &c); err != nil {
			t.Fatal(err)
		}
		return c.Version
	}
	inForce := func() int64 {
		t.Helper()
		return answers[[]rulestore.Version](t, "rules", "history")[0].Version
	}
	flags := []string{"--edge-list", listARN, "--rules-from-table"}
	for i, args := range [][]string{{"publish", endpoints(t, 3)}, {"publish", endpoints(t, 4)}, {"rollback"}} {
		out, failed := run(t, environment, append(append([]string{"rules"}, args...), flags...)...)
		if got, want := version(), inForce(); failed || got != want || !strings.HasSuffix(out, "; a distribution in front stops refusing by older rules within seconds\n") {
			t.Errorf("%d: got failed %t, version %d, %s; want version %d in the list", i, failed, got, out, want)
		}
	}
	before := version()
	list.deny(true)
	changed := endpoints(t, 5)
	out, failed := run(t, environment, append([]string{"rules", "publish", changed}, flags...)...)
	if !failed || inForce() == before || !strings.Contains(out, "is published, but the list of the distribution did not change: ") || !strings.Contains(out, "weir rules get | weir rules publish - with the same flags") {
		t.Errorf("without permission: got failed %t, %s; want a publication, and exit 1 with what to do", failed, out)
	}
	list.deny(false)
	if out, failed := run(t, environment, append([]string{"rules", "publish", changed}, flags...)...); failed || version() != inForce() || !strings.Contains(out, "nothing was published") {
		t.Errorf("again: got failed %t, version %d, %s; want version %d in the list", failed, version(), out, inForce())
	}
}

// keys --local removes the key's entry from the list of a running gateway. Without a gateway, it changes only the key.
func TestEdgeList_local(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(rules, []byte(`{"rules":[{"endpoint":"*","limits":{"global":{"name":"flood","requests":2,"window":"5m","algorithm":"sliding_log","per":["apikey"]}}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const lag = 2 * time.Second
	l := newLocalEdge(t, serve.Memory, rules, lag)
	t.Setenv("WEIR_URL", l.rest.URL)
	key, _ := createKey(t, "--id", "acme", "--local")
	send := func() commandtest.Reply {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.rest.URL+"/api/v1/search", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		return commandtest.Do(t, r)
	}
	flood := func() {
		t.Helper()
		for range 40 {
			send()
		}
		l.Wait(lag)
		if send().Header.Get(edge.AnsweredField) == "" {
			t.Fatal("after the flood: got no refusal at the edge")
		}
	}
	for _, args := range [][]string{{"keys", "set", "acme", "--tier", "free", "--local"}, {"keys", "revoke", "acme", "--local"}} {
		flood()
		if out := ok(t, args...); !strings.Contains(out, "removed from the list of the distribution: 1\n") {
			t.Errorf("%q: got %s, want one removed entry", args, out)
		}
		l.Wait(10 * time.Minute)
	}
	t.Setenv("WEIR_URL", "http://127.0.0.1:1")
	createKey(t, "--id", "acme", "--local")
	ok(t, "keys", "revoke", "acme", "--local")
}
