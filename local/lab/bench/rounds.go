package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
)

// contender is a row of a table, and its measurement.
type contender struct {
	name    string
	measure func() ([]figure, error)
}

// interleave measures every contender once in each round, so that other load on the machine affects
// all contenders. It returns one row for each contender, with the medians of its rounds.
func (b *bench) interleave(ctx context.Context, contenders []contender) ([]row, error) {
	rows, lines := make([]row, len(contenders)), make([][][]figure, len(contenders))
	for round := range b.rounds {
		for i, c := range contenders {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			b.say("round %d of %d: %s", round+1, b.rounds, c.name)
			line, err := c.measure()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			lines[i] = append(lines[i], line)
		}
	}
	for i, c := range contenders {
		rows[i].Name = c.name
		for column := range lines[i][0] {
			var values []figure
			for _, line := range lines[i] {
				values = append(values, line[column])
			}
			rows[i].Values = append(rows[i].Values, median(values))
		}
	}
	return rows, nil
}

// median returns the middle value. For an even number of values, it returns the mean of the two
// middle values.
func median(values []figure) figure {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// together runs f once for each caller and returns one of the errors.
func together(callers int, f func(caller int) error) error {
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() { errs[caller] = f(caller) })
	}
	wg.Wait()
	return cmp.Or(errs...)
}
