package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
)

// The smallest run of the functions' benchmarks measures every row.
func TestRun_functions(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-only", "functions", "-quick", "-rounds", "1", "-json"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	invocations := r.Groups[0].Tables[0]
	for _, name := range []string{jsonRow, anonymousRow, apiKeyRow, es256Row, rs256Row, newRow, forgedRow, signatureRow} {
		if ns := invocations.value(name, "ns"); !(ns > 0) {
			t.Errorf("%s: got %v ns, want above 0", name, ns)
		}
	}
}
