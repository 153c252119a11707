package main

import (
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
	c := &cobra.Command{
		Use:   "token",
		Short: "Make a token that the local gateway accepts",
		Long:  "Make a JSON Web Token that the local gateway accepts, signed with a key of this checkout alone (below .weir).",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			checkout, err := findCheckout()
			if err != nil {
				return err
			}
			token, err := makeToken(checkout, user, tier, valid, extra)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), token)
			return err
		},
	}
	c.Flags().StringVar(&user, "user", "alice", "the user, claim sub")
	c.Flags().StringVar(&tier, "tier", "", "the tier, claim tier")
	c.Flags().DurationVar(&valid, "valid", time.Hour, "how long it is valid; negative for one that has expired")
	c.Flags().StringArrayVar(&extra, "claim", nil, "another claim, as name=value; may be repeated")
	return c
}

func makeToken(c checkout, user, tier string, valid time.Duration, extra []string) (string, error) {
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
