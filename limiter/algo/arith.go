package algo

import (
	"math"
	"math/bits"
)

// mulDivFloor returns floor(a*b/d) for a, b >= 0 and d > 0, computed in 128 bits
// and capped at math.MaxInt64.
func mulDivFloor(a, b, d int64) int64 {
	q, _ := mulDiv(a, b, d)
	return q
}

// mulDivCeil is like mulDivFloor, but rounds up.
func mulDivCeil(a, b, d int64) int64 {
	q, r := mulDiv(a, b, d)
	if r > 0 {
		q++
	}
	return q
}

func mulDiv(a, b, d int64) (quo, rem int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(d) { // the quotient does not fit 64 bits
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, uint64(d))
	if q >= math.MaxInt64 { // the quotient reaches the cap, at the latest after rounding up
		return math.MaxInt64, 0
	}
	return int64(q), int64(r)
}

// mulOne returns floor(a*b/one) for a, b >= 0 and a <= one, without a division.
func mulOne(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(hi<<(64-oneBits) | lo>>oneBits)
}

// mulOneCeil returns ceil(a*b/one) for a, b >= 0 and b <= one, without a division.
func mulOneCeil(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, one-1, 0)
	return int64((hi+carry)<<(64-oneBits) | lo>>oneBits)
}

// divFloor returns floor(a/b) for b > 0; Go's division rounds toward zero.
func divFloor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
