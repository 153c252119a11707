package limiter

import "sync/atomic"

// downAfter is the number of calls in a row without an answer after which the store counts as down.
const downAfter = 5

// health records whether a shared store answers this process.
type health struct {
	answers  atomic.Int64 // calls with an answer
	failures atomic.Int64 // calls without an answer since the last answer
}

// record records the error of a call. answers is the number of answers at the start of the call. If the
// store answered other calls since then, a timeout means that the subject is busy, and the store works.
func (h *health) record(answers int64, err error) error {
	if Answered(err) {
		h.answers.Add(1)
		h.failures.Store(0)
		return err
	}
	if TimedOut(err) && h.answers.Load() != answers {
		return asBusy(err)
	}
	h.failures.Add(1)
	return err
}
