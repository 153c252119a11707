package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
)

// report is what was measured.
type report struct {
	// MaxZipped and MaxInit are the goals, in bytes and milliseconds.
	MaxZipped int64     `json:"max_zipped_bytes"`
	MaxInit   float64   `json:"max_init_ms"`
	Bundles   []*bundle `json:"bundles"`
	// Problems are bootstraps that did not start.
	Problems []string `json:"problems,omitempty"`

	stores []store
}

// measure measures the bootstraps below dist.
func measure(ctx context.Context, dist string, starts int) (*report, error) {
	bundles, err := findBundles(dist)
	if err != nil {
		return nil, err
	}
	stores, closeStores, err := openStores(ctx)
	if err != nil {
		return nil, err
	}
	defer closeStores()
	r := &report{MaxZipped: maxZipped, MaxInit: milliseconds(maxInit), Bundles: bundles, stores: stores}
	for _, b := range bundles {
		if !b.runsHere() {
			continue
		}
		for _, s := range stores {
			if err := b.start(ctx, s, starts); err != nil {
				r.Problems = append(r.Problems, err.Error())
			}
		}
	}
	return r, nil
}

// good reports whether all zip files are within their goal and all bootstraps start.
func (r *report) good() bool {
	for _, b := range r.Bundles {
		if b.Zipped > r.MaxZipped {
			return false
		}
	}
	return len(r.Problems) == 0
}

// print prints the table, and below it each goal with what misses it.
func (r *report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "bootstrap\tbinary\tzipped\t")
	for _, s := range r.stores {
		fmt.Fprintf(w, "init, %s\t", s.name)
	}
	fmt.Fprintln(w)
	var over []string
	for _, b := range r.Bundles {
		fmt.Fprintf(w, "%s\t%s\t%s\t", b, megabytes(b.Binary), megabytes(b.Zipped))
		if b.Zipped > r.MaxZipped {
			over = append(over, fmt.Sprintf("OVER THE GOAL: %s is %s zipped", b, megabytes(b.Zipped)))
		}
		for _, s := range r.stores {
			median, ok := b.Inits[s.name]
			if !ok {
				fmt.Fprint(w, "-\t")
				continue
			}
			fmt.Fprintf(w, "%.1f ms\t", median)
			if median > r.MaxInit {
				over = append(over, fmt.Sprintf("OVER THE GOAL: %s takes %.1f ms with %s", b, median, s.name))
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ngoals: at most %s zipped, %.0f ms from the start to the first event asked for, on this machine's architecture\n", megabytes(r.MaxZipped), r.MaxInit)
	for _, line := range append(over, r.Problems...) {
		fmt.Fprintln(out, line)
	}
	return nil
}

func megabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }
