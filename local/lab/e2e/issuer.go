package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The issuer and the audience of the token of a run, and the life of the token.
const (
	issuerName = "https://weir-e2e.invalid"
	audience   = "weir-e2e"
	tokenLife  = 3 * time.Hour
)

// newIssuer returns the key set of an issuer with a new key, and a token of the issuer.
func newIssuer(now time.Time) (keys []byte, token string, err error) {
	private, err := rsa.GenerateKey(rand.Reader, 2048) // RS256 is the default of the functions
	if err != nil {
		return nil, "", err
	}
	key := jose.JSONWebKey{Key: private, KeyID: "e2e", Algorithm: string(jose.RS256), Use: "sig"}
	if keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}); err != nil {
		return nil, "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, "", err
	}
	token, err = jwt.Signed(signer).Claims(map[string]any{"iss": issuerName, "aud": audience, "sub": "e2e", "iat": now.Unix(), "exp": now.Add(tokenLife).Unix()}).Serialize()
	return keys, token, err
}

// addIssuer deploys an issuer. It returns the parameters with which the limits accept its tokens.
func (r *run) addIssuer(ctx context.Context) (parameters map[string]string, err error) {
	if !r.Issuer {
		return map[string]string{}, nil
	}
	keys, token, err := newIssuer(time.Now())
	if err != nil {
		return nil, err
	}
	outputs, err := r.create(ctx, r.issuerStack(), issuerTemplate(r.issuerStack(), keys))
	if err != nil {
		return nil, err
	}
	r.credentials = append(r.credentials, "WEIR_TOKEN="+token)
	return map[string]string{"Issuer": issuerName, "Audience": audience, "JWKS": outputs["URL"]}, nil
}

func (r *run) issuerStack() string { return r.stack + "-issuer" }
