package rules_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// kept is a source that a test writes.
type kept struct {
	mu       sync.Mutex
	document rules.Document
	err      error
	slow     time.Duration
	reads    int
}

func (k *kept) Document(ctx context.Context) (rules.Document, error) {
	k.mu.Lock()
	k.reads++
	d, err, slow := k.document, k.err, k.slow
	k.mu.Unlock()
	select {
	case <-time.After(slow):
		return d, err
	case <-ctx.Done():
		return rules.Document{}, ctx.Err()
	}
}

// put puts a document of a version into the source, with so many requests a minute.
func (k *kept) put(version int64, requests int) {
	k.set(rules.Document{Content: fmt.Appendf(nil, `{"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":%d,"window":"1m"}}}]}`, requests), Version: version}, nil)
}

func (k *kept) set(d rules.Document, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.document, k.err = d, err
}

// requests returns how many requests a minute rules allow.
func requests(r *rules.Rules) int64 {
	return r.Charges(nil, "GET", rules.MustParsePath("/"), limiter.Caller{User: "a"})[0].Limit.Rate.Requests
}

// news collects what is told of readings.
type news struct {
	mu  sync.Mutex
	all []rules.News
}

func (n *news) observe(_ time.Time, one rules.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, one)
}

func (n *news) take() []rules.News {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.all
	n.all = nil
	return all
}

// opened returns rules that the source has had at the time of the test, version 1.
func opened(t *testing.T, k *kept) (*rules.Live, *news) {
	t.Helper()
	k.put(1, 1)
	l, n := rules.NewLive(nil, k, rules.LiveOptions{}), &news{}
	l.Observe(n.observe)
	now := time.Now()
	if err := l.Refresh(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if first := n.take(); len(first) != 1 || !first[0].Changed || first[0].Rules.Version() != 1 || !first[0].Confirmed.Equal(now) {
		t.Fatalf("at first: %+v", first)
	}
	return l, n
}

// No request is decided by rules of which the source was not asked for a minute: whoever
// comes later waits, and whoever comes before asks beside its decision.
func TestLive_minute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{slow: 5 * time.Millisecond}
		l, _ := opened(t, k)
		k.put(2, 2)
		for range 29 {
			time.Sleep(time.Second)
			if r := l.At(t.Context(), time.Now()); requests(r) != 1 || k.reads != 1 {
				t.Fatalf("too early: %d requests, %d reads", requests(r), k.reads)
			}
		}
		time.Sleep(21 * time.Second) // due whatever was drawn
		begun := time.Now()
		if r := l.At(t.Context(), begun); requests(r) != 1 || time.Since(begun) != 0 {
			t.Errorf("beside: %d requests after %s", requests(r), time.Since(begun))
		}
		l.Settle()
		if r := l.At(t.Context(), time.Now()); time.Since(begun) != k.slow || requests(r) != 2 || k.reads != 2 {
			t.Errorf("the next: %d requests after %s, %d reads", requests(r), time.Since(begun), k.reads)
		}
		k.put(3, 3)
		time.Sleep(time.Hour)
		begun = time.Now()
		if r := l.At(t.Context(), begun); requests(r) != 3 || time.Since(begun) != k.slow {
			t.Errorf("after a pause: %d requests after %s", requests(r), time.Since(begun))
		}
	})
}

// A slow source holds nobody up for longer than 100 ms, is asked once at a time, and is given
// up after a second.
func TestLive_slow(t *testing.T) {
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
					t.Errorf("%d requests after %s", requests(r), waited)
				}
				l.Settle()
				if waited := time.Since(begun); waited != 200*time.Millisecond {
					t.Errorf("settled after %s", waited)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		if told := n.take(); k.reads != 2 || len(told) != 1 || !errors.Is(told[0].Err, context.DeadlineExceeded) {
			t.Errorf("%d reads: %+v", k.reads, told)
		}
		begun := time.Now()
		l.Settle() // nothing is under way
		if time.Since(begun) != 0 {
			t.Errorf("settled after %s", time.Since(begun))
		}
	})
}

// A reading that was frozen with its environment holds up no other: who comes after it has what the
// source has then, and what the frozen one brings at last changes nothing.
func TestLive_frozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		l, n := opened(t, k)
		begun := time.Now()
		k.put(2, 2)
		k.slow = 900 * time.Millisecond
		if r := l.At(t.Context(), begun.Add(55*time.Second)); requests(r) != 1 { // begins it
			t.Errorf("beside: %d requests", requests(r))
		}
		synctest.Wait()
		k.put(3, 3)
		k.slow = 0
		if r := l.At(t.Context(), begun.Add(time.Hour)); requests(r) != 3 || k.reads != 3 {
			t.Errorf("after a freeze: %d requests, %d reads", requests(r), k.reads)
		}
		time.Sleep(time.Second)
		if told := n.take(); len(told) != 1 || told[0].Err != nil || requests(l.Current()) != 3 {
			t.Errorf("told %+v", told)
		}
		if r := l.At(t.Context(), begun.Add(time.Hour+time.Second)); requests(r) != 3 || k.reads != 3 {
			t.Errorf("a second later: %d requests, %d reads", requests(r), k.reads)
		}
	})
}

// Rules that are asked for ever so often are.
func TestLive_Every_least(t *testing.T) {
	k := &kept{}
	k.put(1, 1)
	l := rules.NewLive(nil, k, rules.LiveOptions{Every: 1})
	if err := l.Refresh(t.Context(), time.Now()); err != nil || requests(l.Current()) != 1 {
		t.Error(err)
	}
}

// While the source fails the rules stay, nobody waits, and it is asked now and then; that is
// told once.
func TestLive_failing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		l, n := opened(t, k)
		confirmed := time.Now()
		k.set(rules.Document{}, errors.New("down"))
		for range 600 {
			time.Sleep(time.Second)
			begun := time.Now()
			if r := l.At(t.Context(), begun); requests(r) != 1 || time.Since(begun) != 0 {
				t.Fatalf("%d requests after %s", requests(r), time.Since(begun))
			}
			l.Settle()
		}
		told := n.take()
		if len(told) < 60 || len(told) > 120 {
			t.Errorf("asked %d times in ten minutes, want every five to nine seconds", len(told))
		}
		for i, one := range told {
			if one.Err == nil || one.Err.Error() != "down" || one.Changed || one.Repeated != (i > 0) || !one.Confirmed.Equal(confirmed) {
				t.Errorf("%d: %+v", i, one)
			}
		}
		k.put(2, 2)
		time.Sleep(10 * time.Second)
		_ = l.At(t.Context(), time.Now())
		l.Settle()
		if told := n.take(); len(told) != 1 || !told[0].Changed || told[0].Err != nil || requests(l.Current()) != 2 {
			t.Errorf("back: %+v", told)
		}
	})
}

// What is not put into force: a document with mistakes, one without a version, an older one, and
// another one with the same. Each is told once, and the rules stay until a better one comes.
func TestLive_refused(t *testing.T) {
	valid := []byte(`{"rules":[]}`)
	for name, c := range map[string]struct {
		document rules.Document
		want     string
		mistakes bool
	}{
		"mistakes":   {rules.Document{Content: []byte(`{"rules":7}`), Version: 8}, "rules: got 7, want a list", true},
		"empty":      {rules.Document{Version: 8}, "the document ends too early", true},
		"no version": {rules.Document{Content: valid}, "version: is missing", true},
		"older":      {rules.Document{Content: valid, Version: 4}, "version 4, and 5 is in force", false},
		"the same":   {rules.Document{Content: valid, Version: 5}, "version: is 5, that of the rules in force, which are others", true},
	} {
		t.Run(name, func(t *testing.T) {
			k, now := &kept{}, time.Now()
			l, n := opened(t, k)
			refresh := func() rules.News {
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
				if got.Err == nil || !strings.Contains(got.Err.Error(), c.want) || mistakes != c.mistakes || errors.Is(got.Err, rules.ErrOlder) == mistakes {
					t.Errorf("got %v, want %s", got.Err, c.want)
				}
				if l.Current() != good || got.Changed || got.Repeated != (i > 0) || !got.Confirmed.Before(now) {
					t.Errorf("reading %d: %+v", i, got)
				}
			}
			k.put(5, 5)
			if got := refresh(); got.Err != nil || got.Changed || l.Current() != good {
				t.Errorf("the good one again: %+v", got)
			}
			k.put(6, 6)
			if got := refresh(); got.Err != nil || !got.Changed || requests(l.Current()) != 6 {
				t.Errorf("a better one: %+v", got)
			}
		})
	}
}

// Rules of version 0 give way to any, such as those of a bundle while the source has not been
// read; and until then it is asked more often.
func TestLive_initial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bundled, err := rules.Parse([]byte(`{"version":9,"rules":[{"endpoint":"*","limits":{"*":{"name":"l","requests":9,"window":"1m"}}}]}`), rules.Options{Assigned: true})
		if err != nil || bundled.Version() != 0 {
			t.Fatalf("version %d, %v", bundled.Version(), err)
		}
		k := &kept{err: errors.New("down")}
		l := rules.NewLive(bundled, k, rules.LiveOptions{})
		if r := l.At(t.Context(), time.Now()); r != bundled || k.reads != 1 {
			t.Errorf("at first: version %d, %d reads", r.Version(), k.reads)
		}
		k.put(1, 1)
		time.Sleep(time.Second)
		_ = l.At(t.Context(), time.Now())
		l.Settle()
		if r := l.At(t.Context(), time.Now()); r.Version() != 1 {
			t.Errorf("version %d after a second", r.Version())
		}
	})
}

// Requests at once see whole versions, and one reading is made for all.
func TestLive_concurrent(t *testing.T) {
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
						t.Errorf("version %d with %d requests, want %d", r.Version(), requests(r), version)
					}
				})
			}
			all.Wait()
			if told := n.take(); len(told) != 1 {
				t.Fatalf("%d readings", len(told))
			}
		}
	})
}

// Environments that start together do not ask together.
func TestLive_jitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[int]int{} // by second
		begun := time.Now()
		var all sync.WaitGroup
		var mu sync.Mutex
		for range 200 {
			k := &kept{}
			l, _ := opened(t, k)
			l.Observe(func(now time.Time, _ rules.News) {
				mu.Lock()
				defer mu.Unlock()
				asked[int(now.Sub(begun)/time.Second)]++
			})
			all.Go(func() {
				for range 49 {
					time.Sleep(time.Second)
					_ = l.At(t.Context(), time.Now())
					l.Settle()
				}
			})
		}
		all.Wait()
		total := 0
		for second, n := range asked {
			total += n
			if second < 30 || second > 50 || n > 40 {
				t.Errorf("second %d: %d of 200", second, n)
			}
		}
		if total < 150 {
			t.Errorf("%d of 200 in 49 seconds: %v", total, asked)
		}
	})
}

func ExampleLive() {
	document := rules.Document{Version: 1, Content: []byte(`{"rules":[{"endpoint":"/search","limits":{"*":{"requests":10,"window":"1m"}}}]}`)}
	source := source(func(context.Context) (rules.Document, error) { return document, nil }) // a file, a table
	live := rules.NewLive(nil, source, rules.LiveOptions{Every: time.Minute})
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	if err := live.Refresh(context.Background(), now); err != nil {
		fmt.Println(err)
		return
	}
	show := func(now time.Time) {
		charge := live.Charges(context.Background(), now, "GET", rules.MustParsePath("/search"), limiter.Caller{User: "alice"})[0]
		fmt.Println(charge.Limit.Version, charge.Limit.Rate.Requests)
	}
	show(now)
	document = rules.Document{Version: 2, Content: []byte(`{"rules":[{"endpoint":"/search","limits":{"*":{"requests":20,"window":"1m"}}}]}`)}
	show(now.Add(time.Second))
	show(now.Add(time.Minute))
	document = rules.Document{Version: 3, Content: []byte(`{"rules":[{"endpoint":"search"}]}`)}
	fmt.Println(live.Refresh(context.Background(), now.Add(2*time.Minute)))
	show(now.Add(2 * time.Minute))
	// Output:
	// 1 10
	// 1 10
	// 2 20
	// rules[0].endpoint: got "search", want "*" or a path that begins with /
	// rules[0].limits: is missing
	// 2 20
}

type source func(context.Context) (rules.Document, error)

func (s source) Document(ctx context.Context) (rules.Document, error) { return s(ctx) }

// The way that each request takes: what a request pays for rules that may change.
func BenchmarkLive_At(b *testing.B) {
	k := &kept{}
	k.put(1, 1)
	for name, l := range map[string]*rules.Live{"fixed": nil, "live": rules.NewLive(nil, k, rules.LiveOptions{})} {
		now := time.Now()
		if l == nil {
			r, err := rules.Parse(k.document.Content, rules.Options{Version: 1})
			if err != nil {
				b.Fatal(err)
			}
			l = rules.Fixed(r)
		} else if err := l.Refresh(b.Context(), now); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if l.At(b.Context(), now) == nil {
						b.Error("no rules")
					}
					l.Settle()
				}
			})
		})
	}
}
