package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// zipfExponent makes the k-th caller send requests with a frequency proportional to 1/k. rand.Zipf allows only exponents above 1.
const zipfExponent = 1.00001

// lognormal is a log-normal distribution of times.
type lognormal struct{ mu, sigma float64 }

// quantile99 is the 99th percentile of the standard normal distribution.
const quantile99 = 2.3263478740408408

func newLognormal(median, p99 time.Duration) lognormal {
	mu := math.Log(float64(median))
	return lognormal{mu, (math.Log(float64(p99)) - mu) / quantile99}
}

func (l lognormal) draw(r *rand.Rand) time.Duration {
	return time.Duration(math.Exp(l.mu + l.sigma*r.NormFloat64()))
}
