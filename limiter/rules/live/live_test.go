package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
)

// kept is a source. Tests change its document with put.
type kept struct {
	mu       sync.Mutex
	document live.Document
	err      error
	slow     time.Duration
	reads    int
}

func (k *kept) Document(ctx context.Context) (live.Document, error) {
	k.mu.Lock()
	k.reads++
	d, err, slow := k.document, k.err, k.slow
	k.mu.Unlock()
	select {
	case <-time.After(slow):
		return d, err
	case <-ctx.Done():
		return live.Document{}, ctx.Err()
	}
}

// put stores a document with a version and a number of requests per minute.
func (k *kept) put(version int64, requests int) {
	k.set(live.Document{Content: fmt.Appendf(nil, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":%d,"window":"1m"}}}]}`,
		requests), Version: version}, nil)
}

func (k *kept) set(d live.Document, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.document, k.err = d, err
}

func requests(r *rules.Rules) int64 {
	return r.Charges(nil, "GET", rules.EncodedPath("/"), caller.Caller{User: "a"})[0].Limit.Rate.Requests
}

type reloads struct {
	mu  sync.Mutex
	all []live.Reload
}

func (n *reloads) observe(_ time.Time, one live.Reload) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
}

func (n *reloads) take() []live.Reload {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// opened returns rules of version 1 after their first reload.
func opened(t *testing.T, k *kept) (*live.Rules, *reloads) {
	t.Helper()
	k.put(1, 1)
	l, n := live.New(nil, k, live.Options{}), &reloads{}
	l.Observe(n.observe)
	now := time.Now()
	if err := l.Refresh(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if first := n.take(); len(first) != 1 || !first[0].Changed || first[0].Rules.Version() != 1 || !first[0].Confirmed.Equal(now) {
		t.Fatalf("first reload: got %+v, want a change to version 1", first)
	}
	return l, n
}

// The rules that decide a request are at most a minute old. If they are older, the request waits for a
// reload. If they are almost a minute old, the request starts a reload but does not wait.
func TestRules_age(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{slow: 5 * time.Millisecond}
		l, _ := opened(t, k)
		k.put(2, 2)
		for range 29 {
			time.Sleep(time.Second)
			if r := l.At(t.Context(), time.Now()); requests(r) != 1 || k.reads != 1 {
				t.Fatalf("before a reload is due: got %d requests, %d reads; want 1 request, 1 read", requests(r), k.reads)
			}
		}
		time.Sleep(21 * time.Second) // 50 s after the last reload, so the next is due: at most 5/6 of the 60 s of Every
		begun := time.Now()
		if r := l.At(t.Context(), begun); requests(r) != 1 || time.Since(begun) != 0 {
			t.Errorf("request that starts the reload: got %d requests after %s, want 1 after 0s", requests(r), time.Since(begun))
		}
		l.Wait()
		if r := l.At(t.Context(), time.Now()); time.Since(begun) != k.slow || requests(r) != 2 || k.reads != 2 {
			t.Errorf("next request: got %d requests after %s, %d reads; want 2 after %s, 2 reads", requests(r), time.Since(begun), k.reads, k.slow)
		}
		k.put(3, 3)
		time.Sleep(time.Hour)
		begun = time.Now()
		if r := l.At(t.Context(), begun); requests(r) != 3 || time.Since(begun) != k.slow {
			t.Errorf("after a pause: got %d requests after %s, want 3 after %s", requests(r), time.Since(begun), k.slow)
		}
	})
}

// A slow source delays a request by at most 100 ms. At most one call of the source runs at a time, and
// each call times out after a second.
func TestRules_slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		l, n := opened(t, k)
		k.put(2, 2)
		k.slow = time.Hour
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				begun := time.Now()
				r := l.At(t.Context(), begun)
				if waited := time.Since(begun); requests(r) != 1 || waited != 100*time.Millisecond {
					t.Errorf("got %d requests after %s, want 1 after 100ms", requests(r), waited)
				}
				l.Wait()
				if waited := time.Since(begun); waited != 200*time.Millisecond {
					t.Errorf("after Settle: got %s, want 200ms", waited)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		if got := n.take(); k.reads != 2 || len(got) != 1 || !errors.Is(got[0].Err, context.DeadlineExceeded) {
			t.Errorf("got %d reads and reloads %+v, want 2 reads and one reload that timed out", k.reads, got)
		}
		begun := time.Now()
		l.Wait() // no reload is in progress, so Wait returns at once
		if time.Since(begun) != 0 {
			t.Errorf("Settle without a reload: got %s, want 0s", time.Since(begun))
		}
	})
}

// A reload that Lambda froze with its environment does not block other reloads. The next request gets
// the current document. The late result of the frozen reload is discarded.
func TestRules_frozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		l, n := opened(t, k)
		begun := time.Now()
		k.put(2, 2)
		k.slow = 900 * time.Millisecond
		if r := l.At(t.Context(), begun.Add(55*time.Second)); requests(r) != 1 { // this request starts the reload but does not wait for it
			t.Errorf("request that starts the reload: got a limit of %d requests, want the limit of the old rules, 1", requests(r))
		}
		synctest.Wait()
		k.put(3, 3)
		k.slow = 0
		if r := l.At(t.Context(), begun.Add(time.Hour)); requests(r) != 3 || k.reads != 3 {
			t.Errorf("after a freeze: got a limit of %d requests and %d reads, want the limit of the current rules, 3, and 3 reads", requests(r),
				k.reads)
		}
		time.Sleep(time.Second)
		if got := n.take(); len(got) != 1 || got[0].Err != nil || requests(l.Current()) != 3 {
			t.Errorf("reloads: got %+v, want one without an error", got)
		}
		if r := l.At(t.Context(), begun.Add(time.Hour+time.Second)); requests(r) != 3 || k.reads != 3 {
			t.Errorf("a second later: got a limit of %d requests and %d reads, want the limit of the current rules, 3, and 3 reads", requests(r),
				k.reads)
		}
	})
}

// While the source fails, the rules do not change and no request waits. Requests retry the reload
// every few seconds. All failures except the first are Repeated.
func TestRules_failing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		l, n := opened(t, k)
		confirmed := time.Now()
		k.set(live.Document{}, errors.New("down"))
		for range 600 {
			time.Sleep(time.Second)
			begun := time.Now()
			if r := l.At(t.Context(), begun); requests(r) != 1 || time.Since(begun) != 0 {
				t.Fatalf("got %d requests after %s, want 1 after 0s", requests(r), time.Since(begun))
			}
			l.Wait()
		}
		got := n.take()
		if len(got) < 60 || len(got) > 120 {
			t.Errorf("in ten minutes: got %d reads, want one every five to nine seconds", len(got))
		}
		for i, one := range got {
			if one.Err == nil || one.Err.Error() != "down" || one.Changed || one.Repeated != (i > 0) || !one.Confirmed.Equal(confirmed) {
				t.Errorf("reload %d: got %+v, want the failure, Repeated %t", i, one, i > 0)
			}
		}
		k.put(2, 2)
		time.Sleep(10 * time.Second)
		_ = l.At(t.Context(), time.Now())
		l.Wait()
		if got := n.take(); len(got) != 1 || !got[0].Changed || got[0].Err != nil || requests(l.Current()) != 2 {
			t.Errorf("after the failure: got %+v, want one change without an error", got)
		}
	})
}

// A document is rejected if it has mistakes, no version, an older version, or the version of a
// different document. The rules in force do not change. All rejections except the first are Repeated.
func TestRules_refused(t *testing.T) {
	valid := []byte(`{"rules":[]}`)
	for name, c := range map[string]struct {
		document live.Document
		want     string
		mistakes bool
	}{
		"mistakes":   {live.Document{Content: []byte(`{"rules":7}`), Version: 8}, "rules: got 7, want a list", true},
		"empty":      {live.Document{Version: 8}, "unexpected end of JSON input", true},
		"no version": {live.Document{Content: valid}, "version: required", true},
		"older":      {live.Document{Content: valid, Version: 4}, "got version 4, want more than 5", false},
		"the same": {live.Document{Content: valid, Version: 5}, "version: got 5, the version of the rules in force, for a different document",
			true},
	} {
		t.Run(name, func(t *testing.T) {
			k, now := &kept{}, time.Now()
			l, n := opened(t, k)
			refresh := func() live.Reload {
				now = now.Add(time.Minute)
				_ = l.Refresh(t.Context(), now)
				return n.take()[0]
			}
			k.put(5, 5)
			_ = refresh()
			good := l.Current()
			k.set(c.document, nil)
			for i := range 3 {
				got := refresh()
				_, mistakes := errors.AsType[rules.Problems](got.Err)
				if got.Err == nil || !strings.Contains(got.Err.Error(), c.want) || mistakes != c.mistakes ||
					errors.Is(got.Err, live.ErrOlder) == mistakes {
					t.Errorf("rejection: got error %v, want %s", got.Err, c.want)
				}
				if l.Current() != good || got.Changed || got.Repeated != (i > 0) || !got.Confirmed.Before(now) {
					t.Errorf("reload %d: got %+v, want no change, Repeated %t", i, got, i > 0)
				}
			}
			k.put(5, 5)
			if got := refresh(); got.Err != nil || got.Changed || l.Current() != good {
				t.Errorf("the valid document again: got %+v, want no error and no change", got)
			}
			k.put(6, 6)
			if got := refresh(); got.Err != nil || !got.Changed || requests(l.Current()) != 6 {
				t.Errorf("a newer valid document: got %+v, want a change and no error", got)
			}
		})
	}
}

// A document of any version replaces rules of version 0, such as the rules in a bundle. Before the first
// success, retries are more frequent.
func TestRules_initial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundled, err := rules.Parse([]byte(`{"version":9,"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":9,"window":"1m"}}}]}`),
			rules.Options{Assigned: true})
		if err != nil || bundled.Version() != 0 {
			t.Fatalf("bundle: got version %d, %v; want 0", bundled.Version(), err)
		}
		k := &kept{err: errors.New("down")}
		l := live.New(bundled, k, live.Options{})
		if r := l.At(t.Context(), time.Now()); r != bundled || k.reads != 1 {
			t.Errorf("at first: got version %d, %d reads; want version 0, 1 read", r.Version(), k.reads)
		}
		k.put(1, 1)
		time.Sleep(time.Second)
		_ = l.At(t.Context(), time.Now())
		l.Wait()
		if r := l.At(t.Context(), time.Now()); r.Version() != 1 {
			t.Errorf("after a second: got version %d, want 1", r.Version())
		}
	})
}

// Concurrent requests get complete versions and share one reload.
func TestRules_concurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{slow: time.Millisecond}
		l, n := opened(t, k)
		for version := int64(2); version < 50; version++ {
			k.put(version, int(version))
			time.Sleep(time.Minute)
			now := time.Now()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if r := l.At(t.Context(), now); r.Version() != version || requests(r) != version {
						t.Errorf("version %d: got %d requests, want %d", r.Version(), requests(r), version)
					}
				})
			}
			all.Wait()
			if got := n.take(); len(got) != 1 {
				t.Fatalf("got %d reloads, want 1", len(got))
			}
		}
	})
}

// Environments that start together reload at different times.
func TestRules_jitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bySecond := map[int]int{} // the number of reloads by second
		begun := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 200 {
			k := &kept{}
			l, _ := opened(t, k)
			l.Observe(func(now time.Time, _ live.Reload) {
				mu.Lock()
				defer mu.Unlock()
				bySecond[int(now.Sub(begun)/time.Second)]++
			})
			all.Go(func() {
				for range 49 {
					time.Sleep(time.Second)
					_ = l.At(t.Context(), time.Now())
					l.Wait()
				}
			})
		}
		all.Wait()
		total := 0
		for second, n := range bySecond {
			total += n
			if second < 30 || second > 50 || n > 40 {
				t.Errorf("second %d: got %d of 200 reloads, want at most 40, and only in seconds 30 to 50", second, n)
			}
		}
		if total < 150 {
			t.Errorf("got %d of 200 reloads in 49 seconds, want at least 150: %v", total, bySecond)
		}
	})
}

// A reload reports the counts that restart.
func TestRules_restarts(t *testing.T) {
	at := &kept{}
	r := live.New(nil, at, live.Options{Parse: rules.Options{Items: dynamostore.Items{}}})
	var all []live.Reload
	r.Observe(func(_ time.Time, one live.Reload) { all = append(all, one) })
	for i, n := range []int{7, 8, 9} {
		at.set(live.Document{Content: endpoints(n), Version: int64(i + 1)}, nil)
		if err := r.Refresh(t.Context(), time.Now().Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []int{0, 7, 0} {
		if got := len(all[i].Restarts); got != want || !all[i].Changed {
			t.Errorf("reload %d: got changed %t, %d restarts, want %d", i, all[i].Changed, got, want)
		}
	}
}

// endpoints returns a document of n endpoints, each with one limit. Up to seven such limits of a caller
// fit one item.
func endpoints(n int) []byte {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"endpoint":"/e%d","limits":{"*":{"requests":3,"window":"1h"}}}`, i))
	}
	return []byte(`{"rules":[` + strings.Join(list, ",") + `]}`)
}

func Example() {
	document := live.Document{Version: 1, Content: []byte(`{"rules":[{"endpoint":"/search","limits":{"*":{"requests":10,"window":"1m"}}}]}`)}
	source := source(func(context.Context) (live.Document, error) { return document, nil }) // a real source reads a file or a table
	r := live.New(nil, source, live.Options{Every: time.Minute})
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	if err := r.Refresh(context.Background(), now); err != nil {
		fmt.Println(err)
		return
	}
	show := func(now time.Time) {
		charges := r.Select(context.Background(), now, rules.Request{Method: "GET", Path: rules.EncodedPath("/search"),
			Caller: caller.Caller{User: "alice"}}).Charges
		fmt.Println(charges[0].Limit.Version, charges[0].Limit.Rate.Requests)
	}
	show(now)
	document = live.Document{Version: 2, Content: []byte(`{"rules":[{"endpoint":"/search","limits":{"*":{"requests":20,"window":"1m"}}}]}`)}
	show(now.Add(time.Second))
	show(now.Add(time.Minute))
	document = live.Document{Version: 3, Content: []byte(`{"rules":[{"endpoint":"search"}]}`)}
	fmt.Println(r.Refresh(context.Background(), now.Add(2*time.Minute)))
	show(now.Add(2 * time.Minute))
	// Output:
	// 1 10
	// 1 10
	// 2 20
	// line 1: rules[0].endpoint: got "search", want "*" or a path that begins with /
	// line 1: rules[0].limits: required
	// 2 20
}

type source func(context.Context) (live.Document, error)

func (s source) Document(ctx context.Context) (live.Document, error) { return s(ctx) }

// Interventions act also while the document is rejected, and stay if their text has a mistake, or if a read is behind. They
// are no change of the document. Under a new floor, the limits of the same document get higher versions.
func TestRules_interventions(t *testing.T) {
	k := &kept{}
	l, n := opened(t, k)
	document := k.document
	item := func(version, floor int64, user string) []byte {
		return fmt.Appendf(nil, `{"version":%d,"floor":%d,"list":[{"kind":"user","value":%q,"begin":1,"end":90}]}`, version, floor, user)
	}
	now := time.Unix(50, 0)
	for _, c := range []struct {
		name                string
		content, operators  []byte
		changed, intervened bool
		failed              bool
		blocked             string
		version             int64
	}{
		{"none", document.Content, nil, false, false, false, "", 1},
		{"one", document.Content, item(7, 0, "a"), false, true, false, "a", 1},
		{"the same", document.Content, item(7, 0, "a"), false, false, false, "a", 1},
		{"bad document", []byte("x"), item(8, 0, "b"), false, true, true, "b", 1},
		{"a read that is behind", document.Content, item(7, 0, "a"), false, false, false, "b", 1},
		{"mistake", document.Content, []byte("x"), false, false, true, "b", 1},
		{"not read", document.Content, nil, false, false, true, "b", 1},
		{"floor", document.Content, item(9, 5, "b"), false, true, false, "b", 6},
		{"file removed", document.Content, nil, false, true, false, "", 1},
	} {
		d := live.Document{Content: c.content, Version: 1, Interventions: c.operators}
		if c.name == "not read" {
			d.Unread = errors.New("denied")
		}
		k.set(d, nil)
		err := l.Refresh(t.Context(), now)
		got := n.take()[0]
		blocked := ""
		for _, user := range []string{"a", "b"} {
			if s := l.Select(t.Context(), now, rules.Request{Method: "GET", Path: rules.EncodedPath("/"),
				Caller: caller.Caller{User: user}}); s.Blocked != nil {
				blocked += user
			}
		}
		version := l.Current().Limits()[0].Charge.Limit.Version
		if (err != nil) != c.failed || got.Changed != c.changed || got.Intervened != c.intervened || blocked != c.blocked ||
			version != c.version {
			t.Errorf("%s: got %+v, %v, blocked %q, version %d, want %+v", c.name, got, err, blocked, version, c)
		}
	}
	if s := l.Select(t.Context(), time.Unix(90, 0), rules.Request{Method: "GET", Path: rules.EncodedPath("/"),
		Caller: caller.Caller{User: "a"}}); s.Blocked != nil {
		t.Error("after its end: still blocked")
	}
}
