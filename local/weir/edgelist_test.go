package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limits/weir/functions/edge"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
)

// keyValueStore answers the calls of the client of a KeyValueStore.
type keyValueStore struct {
	mu     sync.Mutex
	values map[string]string
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

// reset and keys remove their callers from the list of a distribution.
func TestEdgeList(t *testing.T) {
	recordsTable(t)
	createKey(t, "--id", "acme")
	c := edge.Config{Version: 7, Secret: "secret", IPv6Bits: 64}
	address, first, second := c.Key(c.Address(netip.MustParseAddr("192.0.2.1"))), c.Key(edge.APIKey("a")), c.Key(edge.APIKey("b"))
	list := &keyValueStore{values: map[string]string{}}
	fill := func() {
		list.mu.Lock()
		defer list.mu.Unlock()
		until := time.Now().Add(time.Hour)
		list.values[edge.ConfigKey], _ = c.Value()
		list.values[address] = edge.Entry{Until: until, Name: "a"}.Value()
		list.values[first] = edge.Entry{Until: until, Name: "a", Owner: c.Owner("acme")}.Value()
		list.values[second] = edge.Entry{Until: until, Name: "a", Owner: c.Owner("other")}.Value()
	}
	server := httptest.NewServer(list)
	defer server.Close()
	const arn = "arn:aws:cloudfront::123456789012:key-value-store/list"
	environment := []string{ // the client adds the account to the host, so a proxy must answer
		"AWS_ENDPOINT_URL_CLOUDFRONT_KEYVALUESTORE=http://list.example", "HTTP_PROXY=" + server.URL, "http_proxy=" + server.URL, "NO_PROXY=", "no_proxy=",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b",
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
	if code, _, errs := weir(t, "reset", "ip:192.0.2.1", "--edge-list", arn); code != 2 || !strings.Contains(errs, "--edge-list: requires --store") {
		t.Errorf("reset without --store: got exit %d, stderr %q, want exit 2", code, errs)
	}
	if code, _, errs := weir(t, "keys", "revoke", "acme", "--local", "--edge-list", arn); code != 2 || !strings.Contains(errs, "--edge-list and --local") {
		t.Errorf("keys --local: got exit %d, stderr %q, want exit 2", code, errs)
	}
}
