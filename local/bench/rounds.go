package main

import (
	"context"
	"slices"
)

// interleave measures every contender once in each round, so that other load on the machine affects
// all contenders. It returns one line of medians for each contender.
func interleave(ctx context.Context, b *bench, names []string, measure func(contender, round int) ([]figure, error)) ([][]figure, error) {
	rounds := make([][][]figure, len(names)) // by contender, then round
	for round := range b.rounds {
		for i, name := range names {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			b.progress.step("round %d of %d: %s", round+1, b.rounds, name)
			line, err := measure(i, round)
			if err != nil {
				return nil, err
			}
			rounds[i] = append(rounds[i], line)
		}
	}
	medians := make([][]figure, len(names))
	for i, lines := range rounds {
		for c := range lines[0] {
			var values []figure
			for _, line := range lines {
				values = append(values, line[c])
			}
			medians[i] = append(medians[i], median(values))
		}
	}
	return medians, nil
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

// rows combines names and figures.
func rows(names []string, lines [][]figure) []row {
	var all []row
	for i, name := range names {
		all = append(all, row{name, lines[i]})
	}
	return all
}
