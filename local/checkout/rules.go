package checkout

import (
	"os"
	"time"

	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
)

// ParseRules parses a rules document with the options that functions use with DynamoDB. It rejects a version that is
// too far ahead of the clock.
func ParseRules(document []byte) (*rules.Rules, error) {
	return rules.Parse(document, rules.Options{LeaseAbove: rules.LeaseAboveDynamoDB, Items: dynamostore.Items{}, OneRegion: true,
		Now: time.Now()})
}

// KeepRules keeps the path of the rules document that weir serve uses here.
func (c Checkout) KeepRules(path string) error {
	return writeFile(c.rulesPathFile(), []byte(path))
}

// LocalRules returns the path of the rules document of the last weir serve here, or else that of the repository. It returns
// "" if there is neither.
func LocalRules() string {
	c, err := FindKeys()
	if err != nil {
		return ""
	}
	kept, _ := os.ReadFile(c.rulesPathFile())
	for _, path := range []string{string(kept), c.Path("functions", "rules.json")} {
		if path != "" && Exists(path) {
			return path
		}
	}
	return ""
}

func (c Checkout) rulesPathFile() string { return c.Path(".weir", "rules-path") }
