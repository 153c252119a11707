package storetest

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

// placeVariable is the environment variable that contains the place of a process. Linearizable sets it in
// the processes that it starts.
const placeVariable = "WEIR_LINEAR_PLACE"

// process is another process that runs the current test. It gets scripts and returns events.
type process struct {
	scripts *gob.Encoder
	events  *gob.Decoder
}

// newProcess starts a process that stops at the end of the test.
func newProcess(t *testing.T, place string) *process {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.Env, c.Stderr = append(os.Environ(), placeVariable+"="+place), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := in.Close()
		_, drained := io.Copy(io.Discard, out)
		if err := errors.Join(err, drained, c.Wait()); err != nil {
			t.Error(err)
		}
	})
	return &process{gob.NewEncoder(in), gob.NewDecoder(out)}
}

// run implements caller.
func (p *process) run(s script) (events []event, err error) {
	if err := p.scripts.Encode(s); err != nil {
		return nil, err
	}
	return events, p.events.Decode(&events)
}

// serve reads scripts from standard input and runs them until the input ends.
func serve(t *testing.T, store limiter.Store) {
	w := newWorker(t, store)
	scripts, events := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var s script
		if err := scripts.Decode(&s); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		list, err := w.run(s)
		if err == nil {
			err = events.Encode(list)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
