package telemetry

import (
	"math/rand/v2"
	"time"
)

// maxValues is the largest number of durations of a metric in one line. CloudWatch accepts 100.
const maxValues = 50

// sample keeps up to maxValues of the added durations. Each added duration is kept with the same
// probability. The zero value is empty.
type sample struct {
	seen   int
	values [maxValues]time.Duration
}

func (s *sample) add(d time.Duration) {
	s.seen++
	if s.seen <= maxValues {
		s.values[s.seen-1] = d
	} else if i := rand.IntN(s.seen); i < maxValues {
		s.values[i] = d
	}
}

// milliseconds returns the kept durations, rounded to microseconds.
func (s *sample) milliseconds() []float64 {
	values := make([]float64, min(s.seen, maxValues))
	for i := range values {
		values[i] = float64(s.values[i].Microseconds()) / 1000
	}
	return values
}
