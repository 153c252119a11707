package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/caller"
)

// The key set of the template verifies the token of the same issuer, and no other.
func TestNewIssuer(t *testing.T) {
	now := time.Now()
	keys, token, err := newIssuer(now)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := newIssuer(now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys  []byte
		valid bool
	}{"its keys": {keys, true}, "other keys": {other, false}} {
		var made struct {
			Resources struct {
				Get struct {
					Properties struct {
						Integration struct {
							IntegrationResponses []struct{ ResponseTemplates map[string]string }
						}
					}
				}
			}
		}
		if err := json.Unmarshal(issuerTemplate("Weir-e2e-issuer", c.keys), &made); err != nil {
			t.Fatal(err)
		}
		served := made.Resources.Get.Properties.Integration.IntegrationResponses[0].ResponseTemplates["application/json"]
		set, err := caller.ParseKeySet([]byte(served))
		if err != nil {
			t.Fatal(err)
		}
		v, err := caller.NewVerifier(caller.TokenOptions{Keys: set, Issuer: issuerName, Audience: audience, Algorithms: []string{"RS256"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), now, token); (err == nil) != c.valid {
			t.Errorf("%s: got error %v, want a valid token: %t", name, err, c.valid)
		}
	}
}
