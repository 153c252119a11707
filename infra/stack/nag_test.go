package stack_test

import "testing"

// cdk-nag reports nothing but the findings that Excuse suppresses with a reason.
func TestNag(t *testing.T) {
	for name, change := range variants {
		for _, finding := range synthesize(t, change).findings {
			t.Errorf("%s: %s", name, finding)
		}
	}
}
