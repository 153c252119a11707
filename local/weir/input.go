package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/weir-limits/weir/local/command"
)

// await returns the result of the function read, or the error of ctx if ctx ends first. It is for reads
// that may never return, such as from a terminal.
func await[T any](ctx context.Context, read func() (T, error)) (value T, err error) {
	done := make(chan struct{})
	var got T
	var failed error
	go func() {
		got, failed = read()
		close(done)
	}()
	select {
	case <-done:
		return got, failed
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// readDocument reads a file. If the name is "-", it reads the standard input, which is the reader in.
func readDocument(ctx context.Context, in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return await(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	}
	return os.ReadFile(file)
}

// isPerson reports whether a stream is a terminal. Tests replace it.
var isPerson = command.IsTerminal

// errCancelled is the error of a command whose question the user answered with no.
var errCancelled = errors.New("cancelled; nothing was changed")

// confirm asks the user a question. It returns nil for y and yes, and errCancelled for everything
// else.
func confirm(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := await(ctx, func() (answer string, _ error) {
		_, _ = fmt.Fscanln(in, &answer) // an empty answer means no
		return answer, nil
	})
	if err != nil {
		return err
	}
	answer = strings.ToLower(answer)
	if answer != "y" && answer != "yes" {
		return errCancelled
	}
	return nil
}
