package main

import (
	"context"
	"slices"
)

// interleave measures every contender once in each round, so that other load on the machine affects
// all contenders. It returns one row for each contender, with the medians of its rounds.
func interleave(ctx context.Context, b *bench, names []string, measure func(contender, round int) ([]figure, error)) ([]row, error) {
	rows := make([]row, len(names))
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
			rows[i].Name = name
			rows[i].rounds = append(rows[i].rounds, line)
		}
	}
	for i := range rows {
		rows[i].Values = medians(rows[i].rounds)
	}
	return rows, nil
}

func medians(lines [][]figure) (all []figure) {
	for c := range lines[0] {
		var values []figure
		for _, line := range lines {
			values = append(values, line[c])
		}
		all = append(all, median(values))
	}
	return all
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
