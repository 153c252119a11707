package simulate

import (
	"cmp"
	"slices"

	"github.com/weir-limits/weir/limiter/algo"
)

// verdict is how right the decisions of a log were.
type verdict struct {
	// wronglyRefused is how many fewer were admitted than by an oracle that sees all
	// requests in the order of their instants, summed over the callers and windows in
	// which it was fewer. Who of two at the same time comes first is not counted.
	wronglyRefused int64
	// over is how many were admitted that the algorithm refuses, if it is asked in the
	// order of instants for only those that were admitted: all, and the most in one window
	// of a caller.
	over, overMost int64
}

// judge compares the log with the algorithm itself, caller by caller. It sorts the log.
// Requests before from are replayed, and not counted.
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
