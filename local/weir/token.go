package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/spf13/cobra"
)

func tokenCommand() *cobra.Command {
	var user, tier string
	var valid time.Duration
	var extra []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "token",
		Short: "Make a token that the local gateway accepts",
		Long:  "Make a JSON Web Token that the local gateway accepts, signed with a key of this checkout alone (below .weir).",
		Example: "  weir token --user alice --tier paid\n" +
			"  curl -i -H \"Authorization: Bearer $(weir token)\" http://127.0.0.1:8080/api/v1/search\n" +
			"  weir token --claim org=acme --valid 5m",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			checkout, err := findCheckout()
			if err != nil {
				return err
			}
			token, err := makeToken(checkout, user, tier, valid, extra)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), madeToken{token})
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}
	c.Flags().StringVar(&user, "user", "alice", "the user, claim sub")
	c.Flags().StringVar(&tier, "tier", "", "the tier, claim tier")
	c.Flags().DurationVar(&valid, "valid", time.Hour, "how long it is valid; negative for one that has expired")
	c.Flags().StringArrayVar(&extra, "claim", nil, "another claim, as name=value; may be repeated")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	completeTiers(c, "tier", new(string))
	return c
}

// madeToken is what --json prints.
type madeToken struct {
	Token string `json:"token"`
}

// ownClaims are those that --claim does not set, and what does: the registered ones
// (RFC 7519, 4.1), which the gateway checks, and the tier.
var ownClaims = map[string]string{
	"sub": "--user", "tier": "--tier", "exp": "--valid",
	"iss": "weir", "aud": "weir", "iat": "weir", "nbf": "nothing", "jti": "nothing",
}

func makeToken(c checkout, user, tier string, valid time.Duration, extra []string) (string, error) {
	if user == "" {
		return "", usageError{errors.New(`--user: got "", want a user: a token without one is refused`)}
	}
	now := time.Now()
	claims := map[string]any{"iss": localIssuer, "aud": localAudience, "sub": user, "iat": now.Unix(), "exp": now.Add(valid).Unix()}
	if tier != "" {
		claims["tier"] = tier
	}
	for _, claim := range extra {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" {
			return "", usageError{fmt.Errorf("--claim: got %q, want name=value", claim)}
		}
		if by := ownClaims[name]; by != "" {
			return "", usageError{fmt.Errorf("--claim: got %q, want another claim: %s is set by %s", claim, name, by)}
		}
		claims[name] = value
	}
	key, err := c.signingKey()
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: localAlgorithm, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
