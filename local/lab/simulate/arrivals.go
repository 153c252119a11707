package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// zipf draws ranks from 1 to n: rank k has a frequency proportional to k^-exponent. Unlike
// rand.Zipf, it allows exponents from 0 to 1. The method is rejection-inversion without a table
// (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
// distributions", 1996).
type zipf struct {
	n, exponent float64
	first, last float64 // area up to the first and up to the last rank
	near        float64 // a number is accepted at once if its rank is at most near above it
}

func newZipf(n int, exponent float64) zipf {
	z := zipf{n: float64(n), exponent: exponent}
	z.first, z.last = z.area(1.5)-1, z.area(z.n+0.5)
	z.near = 2 - z.inverse(z.area(2.5)-z.height(2))
	return z
}

func (z zipf) height(x float64) float64 { return math.Exp(-z.exponent * math.Log(x)) }

// area returns the integral of height from 1 to x.
func (z zipf) area(x float64) float64 {
	l := math.Log(x)
	if t := (1 - z.exponent) * l; math.Abs(t) > 1e-8 {
		return math.Expm1(t) / t * l
	}
	return l
}

func (z zipf) inverse(a float64) float64 {
	if t := max(-1, (1-z.exponent)*a); math.Abs(t) > 1e-8 {
		return math.Exp(math.Log1p(t) / t * a)
	}
	return math.Exp(a)
}

func (z zipf) draw(r *rand.Rand) int {
	for {
		a := z.last + r.Float64()*(z.first-z.last)
		x := z.inverse(a)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.near || a >= z.area(k+0.5)-z.height(k) {
			return int(k)
		}
	}
}

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
