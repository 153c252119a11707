package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/checkout/checkouttest"
	"github.com/weir-limits/weir/local/command/commandtest"
	"github.com/weir-limits/weir/local/verify"
)

// Each row of weir verify that applies to the SAM CLI passes. The SAM CLI supports no gateway responses, so
// the rows about refusals and bad credentials do not apply to the REST API.
func TestSAM_verify(t *testing.T) {
	template := synthesized(t)
	c := checkouttest.Scratch(t)
	p := commandtest.Start(t, []string{"sam", "--template", template, "--namespace", checkouttest.Namespace()})
	document, err := os.ReadFile(c.Path("functions", "rules.json"))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := checkout.ParseRules(document)
	if err != nil {
		t.Fatal(err)
	}
	synthesizedTemplate, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	read, err := verify.ParseTemplate(synthesizedTemplate)
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Token("vera", "", time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The containers run one request at a time.
	d := verify.Deployment{
		Rules: rules, Clients: 4, MaxWait: 15 * time.Second, Template: read,
		Credential: http.Header{"Authorization": {"Bearer " + token}}, // a caller that no other test uses
	}
	rest := d
	rest.URL = p.URL
	passing(t, &rest, []string{"store-decides", "rest-allowed-fields", "table-ttl", "alarm-actions"})
	d.HTTPURL = fmt.Sprintf("http://127.0.0.1:%d", p.Port+1)
	passing(t, &d, []string{"store-decides", "http-allowed-fields", "http-unauthorized", "limit-exact", "http-refused"})
}

// passing tests the rows with some IDs, and requires that they pass.
func passing(t *testing.T, d *verify.Deployment, ids []string) {
	t.Helper()
	rows := slices.DeleteFunc(verify.Rows(), func(r verify.Row) bool { return !slices.Contains(ids, r.ID) })
	results, err := verify.Run(t.Context(), d.Plan(rows), verify.Progress{})
	if err != nil || len(results) != len(ids) {
		t.Fatalf("got %d results and error %v, want %d", len(results), err, len(ids))
	}
	for _, r := range results {
		if r.Outcome != verify.Pass {
			t.Errorf("%s: got %+v, want pass", r.Row, r.Observation)
		}
	}
}
