package checkout

import (
	"os"

	"github.com/weir-limits/weir/limiter/rules"
)

// ParseRules parses a document with the options of functions on DynamoDB.
func ParseRules(document []byte) (*rules.Rules, error) {
	return rules.Parse(document, rules.Options{LeaseAbove: rules.LeaseAboveDynamoDB})
}

// Tiers returns the tiers of a rules document, or with "" of that of the checkout; none if it
// cannot be read.
func Tiers(document string) []string {
	if document == "" {
		c, err := Find()
		if err != nil {
			return nil
		}
		document = c.Path("functions", "rules.json")
	}
	content, err := os.ReadFile(document)
	if err != nil {
		return nil
	}
	r, err := ParseRules(content)
	if err != nil {
		return nil
	}
	return r.Tiers()
}
