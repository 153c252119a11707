package account_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/local/verify/account"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// Rules returns the published rules that the functions read: those of the deployment or of operators. It returns
// none before the first publication, and for a stack whose rules are elsewhere.
func TestStack_Rules(t *testing.T) {
	template, err := os.ReadFile("../../../infra/golden/dynamodb.template.json")
	if err != nil {
		t.Fatal(err)
	}
	c := accounttest.Start(t)
	open := func(name, from string) *account.Stack {
		c.Deploy(t, name, []byte(strings.NewReplacer(`"RULES_FROM": "deployment"`, `"RULES_FROM": "`+from+`"`, "weir-dev", strings.ToLower(name)).Replace(string(template))), nil)
		s, err := account.Open(t.Context(), c.Config(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	client := dynamodb.NewFromConfig(c.Config())
	for from, publish := range map[string]func(s *account.Stack, table string) error{
		contract.RulesTable: func(_ *account.Stack, table string) error {
			_, err := rulestore.New(client, table).Publish(t.Context(), time.Now(), []byte(`{"rules":[]}`), "", 0, 0)
			return err
		},
		contract.RulesDeployment: func(s *account.Stack, table string) error {
			p := &rulestore.Publisher{API: client, Clock: time.Now}
			_, _, err := p.Publish(t.Context(), cfn.Event{RequestType: cfn.RequestCreate, ResourceProperties: map[string]any{
				contract.PropertyTable: table, contract.PropertyNamespace: "dev", contract.PropertyDocument: property(s, contract.PropertyDocument),
			}})
			return err
		},
		"appconfig:a/b/c": nil,
	} {
		name, _, _ := strings.Cut(from, ":")
		s := open("Weir-"+name, from)
		if document, err := s.Rules(t.Context()); document != nil || err != nil {
			t.Errorf("%s, before a publication: got %s, error %v, want neither", from, document, err)
		}
		if publish == nil {
			continue
		}
		if err := publish(s, physical(t, s, "LimitsRecords")); err != nil {
			t.Fatal(err)
		}
		if document, err := s.Rules(t.Context()); err != nil || !strings.Contains(string(document), `"rules"`) {
			t.Errorf("%s, after a publication: got %s, error %v, want the document", from, document, err)
		}
	}
}

// property returns a property of the custom resource in a stack.
func property(s *account.Stack, name string) any {
	for _, r := range s.Resources() {
		if r.Type == "Custom::WeirRules" {
			return r.Properties[name]
		}
	}
	return nil
}
