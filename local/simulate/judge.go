package simulate

import (
	"cmp"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
)

// verdict is the accuracy of the decisions of a log.
type verdict struct {
	// wronglyRefused is the number of requests that an oracle admits in addition. The oracle
	// sees all requests in order of time. Only windows of a caller in which it admits more
	// count. Which of two concurrent requests is admitted does not matter.
	wronglyRefused int64
	// over counts the admitted requests that the algorithm refuses when it replays only the
	// admitted ones in order of time. overMost is the largest count in one window of a caller.
	over, overMost int64
}

// judge compares the log with the algorithm itself, caller by caller. It sorts the log.
// Requests before from are replayed but not counted.
func judge(m algo.Machine, window int64, from algo.Instant, log []request) (v verdict) {
	slices.SortFunc(log, func(a, b request) int {
		return cmp.Or(cmp.Compare(a.caller, b.caller), cmp.Compare(a.at, b.at))
	})
	for len(log) > 0 {
		n := 1
		for n < len(log) && log[n].caller == log[0].caller {
			n++
		}
		v.replay(m, window, from, log[:n])
		log = log[n:]
	}
	return v
}

// replay judges one caller's requests.
func (v *verdict) replay(m algo.Machine, window int64, from algo.Instant, log []request) {
	var all, admitted algo.State
	var index, missing, over int64
	end := func() {
		v.wronglyRefused += max(0, missing)
		v.over += over
		v.overMost = max(v.overMost, over)
		missing, over = 0, 0
	}
	for i := range log {
		r := &log[i]
		if r.away {
			continue
		}
		if w := int64(r.at) / window; w != index {
			end()
			index = w
		}
		var due, passes bool
		all, due = m.Take(all, r.at, 1)
		if r.admitted {
			admitted, passes = m.Take(admitted, r.at, 1)
		}
		if r.at < from {
			continue
		}
		if due {
			missing++
		}
		if r.admitted {
			missing--
			if !passes {
				over++
			}
		}
	}
	end()
}
