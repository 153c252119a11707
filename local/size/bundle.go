package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/weir-limits/weir/local/lambdaenv"
)

// bundle is a function as it is built for an architecture.
type bundle struct {
	Function string `json:"function"`
	Arch     string `json:"arch"` // as Lambda calls it
	// Binary and Zipped are the sizes of the bootstrap, in bytes.
	Binary int64 `json:"binary_bytes"`
	Zipped int64 `json:"zipped_bytes"`
	// Inits is how long the bootstrap takes from its start until it asks for an event, by
	// store, as the median in milliseconds; empty for another architecture than this
	// machine's.
	Inits map[string]float64 `json:"init_ms,omitempty"`

	path string
}

// findBundles returns those at dist/<arch>/<function>/bootstrap.
func findBundles(dist string) ([]*bundle, error) {
	paths, err := filepath.Glob(filepath.Join(dist, "*", "*", "bootstrap"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("nothing at %s/<arch>/<function>/bootstrap: make functions builds it", dist)
	}
	bundles := make([]*bundle, 0, len(paths))
	for _, path := range paths {
		folder := filepath.Dir(path)
		b := &bundle{Function: filepath.Base(folder), Arch: filepath.Base(filepath.Dir(folder)), Inits: map[string]float64{}, path: path}
		if err := b.weigh(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		bundles = append(bundles, b)
	}
	return bundles, nil
}

// String names the bundle as its folder does.
func (b *bundle) String() string { return b.Arch + "/" + b.Function }

// weigh sets the sizes.
func (b *bundle) weigh() error {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	w, err := z.Create("bootstrap")
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	b.Binary, b.Zipped = int64(len(content)), int64(file.Len())
	return nil
}

// runsHere reports whether this machine can start the bootstrap.
func (b *bundle) runsHere() bool {
	return runtime.GOOS == "linux" && b.Arch == map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
}

// start starts the bootstrap n times with a store and adds the median time. A bootstrap
// that says something at its start has not reached its store, or worse: that is an
// error with what it says.
func (b *bundle) start(ctx context.Context, s store, n int) error {
	times := make([]time.Duration, 0, n)
	for range n {
		var output bytes.Buffer
		e, err := lambdaenv.Start(ctx, lambdaenv.Options{Bootstrap: b.path, Name: b.Function, Variables: s.variables, Output: &output})
		if err == nil {
			times = append(times, e.Init)
			err = e.Close()
		}
		if err == nil && output.Len() > 0 {
			err = errors.New("it is not ready in silence")
		}
		if err != nil {
			return fmt.Errorf("%s with %s: %w\n%s", b, s.name, err, output.String())
		}
	}
	slices.Sort(times)
	b.Inits[s.name] = milliseconds(times[n/2])
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
