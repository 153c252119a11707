package resilient

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A connection counts as dead before the request only if it was idle, and failed without any byte of the answer.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		pause  time.Duration
		answer string
		idle   bool
	}{
		"idle":              {time.Second + 1, "", true},
		"used":              {time.Second, "", false},
		"part of an answer": {time.Second + 1, "+", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 1))
				_, _ = theirs.Write([]byte(c.answer))
				_ = theirs.Close()
			}()
			w := Watch(ours)
			time.Sleep(c.pause)
			_, err := w.Write([]byte("?"))
			for err == nil {
				_, err = w.Read(make([]byte, 1))
			}
			if _, idle := errors.AsType[*idleError](err); idle != c.idle {
				t.Errorf("%s: got error %v, dead before the request: %t, want %t", name, err, idle, c.idle)
			}
		})
	}
}
