package stack_test

import (
	"maps"
	"testing"
)

// cdk-nag reports nothing but the findings that Excuse suppresses with a reason.
func TestNag(t *testing.T) {
	changes := maps.Clone(variants)
	changes["forwarding"] = forwarding
	for name, change := range changes {
		for _, finding := range synthesize(t, change).findings {
			t.Errorf("%s: %s", name, finding)
		}
	}
}
