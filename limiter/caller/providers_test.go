package caller_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/storetest"
)

// With the settings of PROVIDERS.md, tokens of each provider's documented shape identify their caller.
func TestPROVIDERS(t *testing.T) {
	i := newIssuer(t, "a")
	rows := regexp.MustCompile("(?m)^\\| ([A-Z][A-Za-z0-9 ]+) \\| `([^`]+)` \\|.*\\| `([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(
		string(storetest.Must(os.ReadFile("PROVIDERS.md"))), -1)
	list := func(values ...string) []string { return values }
	tokens := map[string]map[string]map[string]any{ // by provider and the expected audience, user and tiers
		"Cognito": {
			"client 2489 [free gold]": {"sub": "2489", "cognito:groups": list("free", "gold"), "client_id": "client", "token_use": "access",
				"scope": "openid", "username": "jane", "aud": nil, "origin_jti": "x", "version": 2},
			"client 2489 [gold]": {"sub": "2489", "aud": "client", "token_use": "id", "cognito:username": "jane", "custom:tier": "paid",
				"cognito:groups": list("gold"), "identities": []any{map[string]any{"userId": "1", "primary": true}}},
		},
		"Auth0": {"https://api/ auth0|655 [gold]": {"sub": "auth0|655", "aud": list("https://api/", "https://TENANT.auth0.com/userinfo"),
			"azp": "app", "gty": "password", "permissions": list("read"), "https://example.com/tier": "gold"}},
		"Entra ID": {"6731de76 0000-1 [gold]": {"aud": "6731de76", "oid": "0000-1", "sub": "AAAA", "tid": "72f9", "ver": "2.0", "azp": "app",
			"azpacr": "1", "roles": list("gold"), "_claim_names": map[string]any{"groups": "src1"}}},
		"Okta": {"api://default jane@example.com [Everyone gold]": {"aud": "api://default", "sub": "jane@example.com", "uid": "00u1",
			"cid": "0oa1",
			"scp": list("openid"), "groups": list("Everyone", "gold"), "ver": 1}},
		"Keycloak": {"api 36fa [offline_access gold]": {"aud": list("api", "account"), "sub": "36fa", "azp": "app", "typ": "Bearer",
			"realm_access":    map[string]any{"roles": list("offline_access", "gold")},
			"resource_access": map[string]any{"account": map[string]any{"roles": list("view-profile")}}}},
		"Firebase": {"PROJECT uid1 [gold]": {"aud": "PROJECT", "sub": "uid1", "user_id": "uid1", "auth_time": 1, "tier": "gold",
			"firebase": map[string]any{"sign_in_provider": "password", "identities": map[string]any{"email": list("a@b")}}}},
	}
	if len(rows) != len(tokens) {
		t.Fatalf("got %d providers in the page, want %d", len(rows), len(tokens))
	}
	for _, row := range rows {
		name, issuer := row[1], row[2]
		for want, changes := range tokens[name] {
			audience, _, _ := strings.Cut(want, " ")
			v := storetest.Must(caller.NewVerifier(caller.TokenOptions{Keys: keySet(t, i.set(t)), Issuer: issuer, Audience: []string{"x", audience},
				Algorithms: []string{"ES256"}, Claims: caller.ClaimNames{User: row[3], Tier: row[4]}}))
			changes["iss"] = issuer
			got, err := v.Verify(ctx, noon, i.token(t, claims(changes)))
			if is := fmt.Sprint(audience, " ", got.User, " ", got.Tiers); err != nil || is != want {
				t.Errorf("%s: got %s, %v, want %s", name, is, err, want)
			}
		}
	}
}
