package checkout

import (
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The issuer, the audience and the algorithm of local tokens.
const (
	Issuer    = "weir-local"
	Audience  = "weir-local"
	Algorithm = jose.EdDSA
)

// Token returns a token that the local gateway accepts for the duration valid. If valid is negative,
// the token has expired. The tier "" means no tier. claims are additional claims; several values
// are a list.
func (c Checkout) Token(user, tier string, valid time.Duration, claims map[string][]string) (string, error) {
	now := time.Now()
	all := map[string]any{"iss": Issuer, "aud": Audience, "sub": user, "iat": now.Unix(), "exp": now.Add(valid).Unix()}
	if tier != "" {
		all["tier"] = tier
	}
	for name, values := range claims {
		all[name] = values
		if len(values) == 1 {
			all[name] = values[0]
		}
	}
	key, err := c.SigningKey()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: Algorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(all).Serialize()
}
