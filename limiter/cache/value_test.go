package cache_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limits/weir/limiter/cache"
)

var (
	noon   = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	errBad = errors.New("no route")
)

func policy() *cache.Policy {
	return &cache.Policy{Fresh: time.Minute, Absent: 10 * time.Second, Stale: time.Hour, Cooldown: 5 * time.Second, Retry: time.Second,
		Timeout: time.Second}
}

// source answers each read with the value or the error that a test sets.
type source struct {
	reads int
	value int
	asOf  time.Time
	err   error
}

func (s *source) load(context.Context) (int, time.Time, error) {
	s.reads++
	return s.value, s.asOf, s.err
}

// Each step sets what the source answers, calls Get, and checks the result and the number of reads.
func TestValue_Get(t *testing.T) {
	v, s := cache.New[int](policy()), &source{}
	for i, step := range []struct {
		after time.Duration
		value int
		asOf  time.Duration // the age of the value at the time of the read
		fails error
		want  int
		err   error
		reads int
	}{
		{0, 0, 0, errBad, 0, errBad, 1},
		{time.Second - 1, 1, 0, nil, 0, errBad, 1}, // no read during the cooldown
		{time.Second, 0, 0, cache.ErrAbsent, 0, cache.ErrAbsent, 2},
		{11*time.Second - 1, 1, 0, nil, 0, cache.ErrAbsent, 2},
		{11 * time.Second, 1, 0, nil, 1, nil, 3},
		{71*time.Second - 1, 2, 0, nil, 1, nil, 3},
		{71 * time.Second, 0, 0, errBad, 1, nil, 4}, // the previous value
		{76*time.Second - 1, 2, 0, nil, 1, nil, 4},
		{76 * time.Second, 0, 0, errBad, 1, nil, 5},
		{time.Hour + 11*time.Second, 0, 0, errBad, 0, errBad, 6}, // the value is too old
		{time.Hour + 12*time.Second, 3, 59 * time.Minute, nil, 3, nil, 7},
		{time.Hour + 72*time.Second, 3, 2 * time.Hour, nil, 0, cache.ErrExpired, 8}, // the source returned a value of two hours ago
		{time.Hour + 77*time.Second - 1, 4, 0, nil, 0, cache.ErrExpired, 8},
		{time.Hour + 77*time.Second, 4, 0, nil, 4, nil, 9},
		{0, 5, 0, nil, 5, nil, 10}, // the clock was set back
	} {
		now := noon.Add(step.after)
		s.value, s.asOf, s.err = step.value, now.Add(-step.asOf), step.fails
		got, err := v.Get(t.Context(), now, s.load)
		if got != step.want || !errors.Is(err, step.err) || (err == nil) != (step.err == nil) || s.reads != step.reads {
			t.Errorf("step %d: got %d, %v after %d reads, want %d, %v after %d", i, got, err, s.reads, step.want, step.err, step.reads)
		}
	}
}

// A thousand requests share one read if there is no value yet. The read continues after the request that
// began it has ended. If there is a previous value, only the first request waits.
func TestValue_Get_together(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := cache.New[int](policy())
		var reads, waited atomic.Int64
		load := func(ctx context.Context) (int, time.Time, error) {
			select {
			case <-time.After(100 * time.Millisecond):
				return int(reads.Add(1)), time.Time{}, nil
			case <-ctx.Done():
				return 0, time.Time{}, ctx.Err()
			}
		}
		together := func(after time.Duration, want int) {
			t.Helper()
			waited.Store(0)
			var wg sync.WaitGroup
			for range 1000 {
				wg.Go(func() {
					begun := time.Now()
					if got, err := v.Get(t.Context(), noon.Add(after), load); err != nil || got != want && got != want-1 {
						t.Errorf("got %d, %v, want %d", got, err, want)
					}
					if time.Since(begun) > 0 {
						waited.Add(1)
					}
				})
			}
			wg.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.Get(ctx, noon, load); !errors.Is(err, context.Canceled) {
			t.Errorf("a request that ended: got %v, want context.Canceled", err)
		}
		together(0, 1)
		if reads.Load() != 1 || waited.Load() != 1000 {
			t.Errorf("got %d reads, %d requests waited, want 1 and 1000", reads.Load(), waited.Load())
		}
		together(time.Minute, 2)
		if reads.Load() != 2 || waited.Load() != 1 {
			t.Errorf("got %d reads, %d requests waited, want 2 and 1", reads.Load(), waited.Load())
		}
	})
}

// A read ends after Policy.Timeout.
func TestValue_Get_timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := cache.New[int](policy()).Get(t.Context(), noon, func(ctx context.Context) (int, time.Time, error) {
			<-ctx.Done()
			return 0, time.Time{}, ctx.Err()
		})
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("got %v after %s, want the timeout after 1s", err, took)
		}
	})
}

// Renew reads a fresh value again if the function permit returns true. After a failed read, the Policy
// decides instead.
func TestValue_Renew(t *testing.T) {
	v, s := cache.New[int](policy()), &source{}
	permit, calls := false, 0
	renew := func(after time.Duration, want int, wantErr error, reads int) {
		t.Helper()
		s.value++
		got, err := v.Renew(t.Context(), noon.Add(after), s.load, func(age time.Duration) bool { calls++; return permit || age >= time.Hour })
		if got != want || !errors.Is(err, wantErr) || s.reads != reads {
			t.Errorf("got %d, %v after %d reads, want %d, %v after %d", got, err, s.reads, want, wantErr, reads)
		}
	}
	renew(0, 1, nil, 1) // the first call reads the source, because there is no value to renew
	renew(time.Second, 1, nil, 1)
	permit = true
	renew(time.Second, 3, nil, 2)
	s.err = errBad
	renew(2*time.Second, 3, nil, 3)
	if !errors.Is(v.Err(), errBad) {
		t.Errorf("error of the last read: got %v, want %v", v.Err(), errBad)
	}
	renew(7*time.Second-1, 3, nil, 3) // permit is not called after a failure
	renew(7*time.Second, 3, nil, 4)
	if calls != 4 {
		t.Errorf("permit: got %d calls, want 4", calls)
	}
}

// If Admit returns an error, no read begins. Get returns the previous value, or the error of Admit if there is
// none. The next request may try again at once.
func TestPolicy_Admit(t *testing.T) {
	p, full := policy(), errors.New("full")
	admit := full
	p.Admit = func(time.Time) error { return admit }
	v, s := cache.New[int](p), &source{value: 1}
	get := func(after time.Duration, want int, wantErr error, reads int) {
		t.Helper()
		if got, err := v.Get(t.Context(), noon.Add(after), s.load); got != want || !errors.Is(err, wantErr) || s.reads != reads {
			t.Errorf("got %d, %v after %d reads, want %d, %v after %d", got, err, s.reads, want, wantErr, reads)
		}
	}
	get(0, 0, full, 0)
	admit = nil
	get(0, 1, nil, 1)
	admit = full
	get(time.Minute, 1, nil, 1)
	get(time.Hour, 0, full, 1)
}
