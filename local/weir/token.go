package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

func tokenCommand() *cobra.Command {
	var user, tier string
	var valid time.Duration
	var extra []string
	c := &cobra.Command{
		Use:   "token",
		Short: "Create a token that the local gateway accepts",
		Long:  "Create a JSON Web Token that the local gateway accepts. The token is signed with the key of this checkout, which is below .weir.",
		Example: "  weir token --user alice --tier paid\n" +
			"  curl -i -H \"Authorization: Bearer $(weir token)\" http://127.0.0.1:8080/api/v1/search\n" +
			"  weir token --claim org=acme --valid 5m",
		Args: command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			claims, err := tokenClaims(user, extra)
			if err != nil {
				return err
			}
			checkout, err := checkout.FindKeys()
			if err != nil {
				return err
			}
			token, err := checkout.Token(user, tier, valid, claims)
			if err != nil {
				return err
			}
			return show(c, map[string]string{"token": token}, func(p *printer) { p.line("%s", token) })
		},
	}
	c.Flags().StringVar(&user, "user", "alice", "the user, claim sub")
	c.Flags().StringVar(&tier, "tier", "", "the tier, claim tier")
	c.Flags().DurationVar(&valid, "valid", time.Hour, "time for which the token is valid; negative for an expired token")
	c.Flags().StringArrayVar(&extra, "claim", nil, "another claim, as name=value; may be repeated, and a repeated name is a list")
	addJSON(c.Flags())
	return c
}

// reservedClaims are the claims that --claim rejects, with the flag or command that sets each. They
// are the tier and the registered claims (RFC 7519, section 4.1), which the gateway checks.
var reservedClaims = map[string]string{
	"sub": "--user", "tier": "--tier", "exp": "--valid",
	"iss": "weir", "aud": "weir", "iat": "weir", "nbf": "nothing", "jti": "nothing",
}

func tokenClaims(user string, extra []string) (map[string][]string, error) {
	if user == "" {
		return nil, command.Usage(`--user: got "", want a user; the gateway rejects a token without a user`)
	}
	claims, err := parseClaims(extra)
	for name := range claims {
		if by := reservedClaims[name]; by != "" {
			return nil, command.Usage("--claim: got %s, want another claim; use %s for this claim", name, by)
		}
	}
	return claims, err
}

// parseClaims parses claims of the form name=value. A repeated name is a list.
func parseClaims(list []string) (map[string][]string, error) {
	claims := map[string][]string{}
	for _, claim := range list {
		name, value, ok := strings.Cut(claim, "=")
		if !ok || name == "" || value == "" {
			return nil, command.Usage("--claim: got %q, want name=value", claim)
		}
		claims[name] = append(claims[name], value)
	}
	return claims, nil
}
