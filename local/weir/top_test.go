package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/serve"
	"github.com/weir-limits/weir/local/top"
)

const topLines = `{"time":"2026-11-21T12:00:00Z","outcome":"refused","count":30,"subject":"aaaaaaaaaaaaaaaa","limit":"search"}
{"time":"2026-11-21T12:00:01Z","outcome":"refused","count":10,"subject":"bbbbbbbbbbbbbbbb","limit":"data"}
{"time":"2026-11-21T13:00:00Z","outcome":"refused","count":5,"subject":"bbbbbbbbbbbbbbbb","limit":"data"}
no event
`

func TestTop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(file, []byte(topLines), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "45 refused; 1 lines are neither events nor metrics\n" +
		"REFUSED  OVER  %     CALLER            LIMIT\n" +
		"30       0     66.7  aaaaaaaaaaaaaaaa  search\n" +
		"15       0     33.3  bbbbbbbbbbbbbbbb  data\n"
	if code, out, errs := weir(t, "top", file); code != 0 || out != want {
		t.Errorf("got %d %s%s\nwant\n%s", code, out, errs, want)
	}
	if code, out, errs := weir(t, "top", "--last", "1m", "-n", "1", file); code != 0 || !strings.HasPrefix(out, "5 refused within 1m0s;") || strings.Contains(out, "aaaa") {
		t.Errorf("got %d %s%s, want the last 5", code, out, errs)
	}
	var got top.Table
	code, out, errs := weir(t, "top", "--json", file)
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil || got.Refused != 45 || got.Skipped != 1 || len(got.Most) != 2 {
		t.Errorf("top --json: got exit %d, output %s%s, error %v, want 45 refusals and 1 skipped line", code, out, errs, err)
	}
	for args, want := range map[string]string{
		"top a b":          `got ["a" "b"], want one FILE`,
		"top --number 0 -": "--number: got 0, want 1 to 1000",
		"top --last=-1s -": "--last: got -1s, want a time such as 5m",
	} {
		if code, _, errs := weir(t, strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: got %d %s, want %s", args, code, errs, want)
		}
	}
	if code, _, errs := weir(t, "top", file+"x"); code != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("missing file: got exit %d, stderr %s, want exit 1", code, errs)
	}
}

// weir top reads the refusals of make run from .weir/metrics.log.
func TestTop_local(t *testing.T) {
	l := newLocal(t, serve.Memory, "../serve/testdata/design.json")
	for range 25 { // the limit admits 20 of the 25 requests
		l.search("")
	}
	l.Wait(2 * time.Second)
	l.search("")
	if code, out, errs := weir(t, "top"); code != 0 || !strings.HasPrefix(out, "5 refused\n") || !strings.Contains(out, "  search\n") {
		t.Errorf("top after 25 requests: got exit %d, output %s%s, want 5 refusals", code, out, errs)
	}
}

// weir top follows a growing file and counts a line when it is complete.
func TestLogFile_follow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("one\ntw"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- logFile{file}.read(ctx, true, lines) }()
	if got := string(<-lines); got != "one" {
		t.Errorf("first line: got %q, want one", got)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := io.WriteString(f, "o\n"); err != nil {
		t.Fatal(err)
	}
	if got := string(<-lines); got != "two" {
		t.Errorf("second line: got %q, want two", got)
	}
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil { // make run truncates its log like this
		t.Fatal(err)
	}
	if got := string(<-lines); got != "new" {
		t.Errorf("line after the truncation: got %q, want new", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Control characters in a line never reach the terminal.
func TestTopOptions_print(t *testing.T) {
	var out bytes.Buffer
	o := topOptions{n: 1}
	table := top.Table{Refused: 1, Most: []top.Refused{{Caller: top.Caller{Subject: "\x1b[2Ja", Limit: "\x9b1m"}, Count: 1}}}
	if err := o.print(&out, table); err != nil || strings.ContainsAny(out.String(), "\x1b\u009b") {
		t.Errorf("output: got %q, error %v, want no control characters", out.String(), err)
	}
}
