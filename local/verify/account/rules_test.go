package account_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/local/verify/account"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// Rules returns the published rules if the functions read them. It returns none before the first
// publication, and for a stack with bundled rules.
func TestStack_Rules(t *testing.T) {
	template, err := os.ReadFile("../../../infra/golden/dynamodb.template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	open := func(name, document string) *account.Stack {
		c.Deploy(t, name, []byte(document))
		s, err := account.Open(t.Context(), c.Config(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	bundled := open("Weir-bundled", strings.ReplaceAll(string(template), "weir-dev", "weir-bundled"))
	if document, err := bundled.Rules(t.Context()); document != nil || err != nil {
		t.Errorf("bundled rules: got %s, error %v, want neither", document, err)
	}
	s := open(stackName, strings.ReplaceAll(string(template), `"RECORDS_TABLE":`, `"RULES_FROM": "table", "RECORDS_TABLE":`))
	if document, err := s.Rules(t.Context()); document != nil || err != nil {
		t.Errorf("before a publication: got %s, error %v, want neither", document, err)
	}
	table := physical(t, s, "LimitsRecords")
	if _, err := rulestore.New(dynamodb.NewFromConfig(c.Config()), table).Publish(t.Context(), time.Now(), []byte(`{"rules":[]}`), "", 0, 0); err != nil {
		t.Fatal(err)
	}
	if document, err := s.Rules(t.Context()); err != nil || !strings.Contains(string(document), `"rules"`) {
		t.Errorf("after a publication: got %s, error %v, want the document", document, err)
	}
}
