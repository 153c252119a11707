package telemetry

import (
	"math/rand/v2"
	"time"
)

// maxValues is how many durations a line has of one metric; CloudWatch would read 100.
const maxValues = 50

// sample keeps some of the durations that it is told, each with the same probability. The
// zero value is empty.
type sample struct {
	told   int
	values [maxValues]time.Duration
}

func (s *sample) add(d time.Duration) {
	s.told++
	if s.told <= maxValues {
		s.values[s.told-1] = d
	} else if i := rand.IntN(s.told); i < maxValues {
		s.values[i] = d
	}
}

// milliseconds returns what is kept, to the microsecond.
func (s *sample) milliseconds() []float64 {
	values := make([]float64, min(s.told, maxValues))
	for i := range values {
		values[i] = float64(s.values[i].Microseconds()) / 1000
	}
	return values
}
