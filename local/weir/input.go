package main

import (
	"context"
	"io"
	"os"
)

// readDocument reads a file. If the name is "-", it reads the standard input, which is the reader in: such as a terminal,
// from which a read may never return. It returns the error of ctx if ctx ends first.
func readDocument(ctx context.Context, in io.Reader, file string) (content []byte, err error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	type result struct {
		content []byte
		err     error
	}
	done := make(chan result, 1)
	go func() {
		content, err := io.ReadAll(in)
		done <- result{content, err}
	}()
	select {
	case r := <-done:
		return r.content, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
