package limiter

import (
	"sync/atomic"
)

// silence is the number of calls in a row without an answer after which the store counts as down.
// Until then a timeout of a busy subject is pressure.
const silence = 5

// pulse records whether a shared store answers this process.
type pulse struct {
	answers  atomic.Int64 // calls that were answered
	failures atomic.Int64 // calls without an answer since the last answer
}

// judge records how a call ended; begun is the number of answers when it began. A timeout is
// pressure and no outage if the store answered other calls meanwhile.
func (p *pulse) judge(begun int64, err error) error {
	if Answered(err) {
		p.answers.Add(1)
		p.failures.Store(0)
		return err
	}
	if TimedOut(err) && p.answers.Load() != begun {
		return pressure(err)
	}
	p.failures.Add(1)
	return err
}
