package domain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// MaxPercentages is the largest number of percentages in Limit.Notify. MaxPercent is the largest
// percentage, because a window counts at most the capacity and a debt of the same size.
const (
	MaxPercentages = 5
	MaxPercent     = 200
)

// MinNotifyWindow is the shortest window of a limit with Notify. It bounds the notices that a caller can
// cause.
const MinNotifyWindow = time.Minute

// Percentages are percentages of a limit's capacity, in ascending order. Zeros follow the last one.
type Percentages [MaxPercentages]int

// List returns the percentages without the zeros.
func (p Percentages) List() []int {
	if n := slices.Index(p[:], 0); n >= 0 {
		return p[:n]
	}
	return p[:]
}

// String returns the percentages, such as "80, 100 %".
func (p Percentages) String() string {
	words := make([]string, len(p.List()))
	for i, percent := range p.List() {
		words[i] = strconv.Itoa(percent)
	}
	return strings.Join(words, ", ") + " %"
}

func (p Percentages) validate(r algo.Rate, s Spread) error {
	if p == (Percentages{}) {
		return nil
	}
	for i, percent := range p {
		switch before := p[max(0, i-1)]; {
		case percent < 0, percent > MaxPercent, i == 0 && percent == 0, i > 0 && percent != 0 && (before == 0 || percent <= before):
			return &algo.FieldError{Field: "notify", Got: p, Want: fmt.Sprintf("percentages from 1 to %d in ascending order", MaxPercent)}
		}
	}
	switch {
	case !r.Algorithm.HasWindows():
		return &algo.FieldError{Field: "notify", Got: r.Algorithm,
			Want: "a fixed_window or a sliding_window: a notice is written once in a window"}
	case r.Span() < MinNotifyWindow:
		return &algo.FieldError{Field: "notify", Got: r.Span(), Want: "a window of at least " + strings.TrimSuffix(MinNotifyWindow.String(),
			"0s")}
	case s != Spread{}:
		return &algo.FieldError{Field: "notify", Got: "lease, shards or sync_ms", Want: "none of them: only the store knows the exact usage"}
	}
	return nil
}
