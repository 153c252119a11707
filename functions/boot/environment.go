package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
)

// Environment returns what the functions need, over store.
func (c Config) Environment(store limiter.Store, logger *slog.Logger) (*lambdahttp.Environment, error) {
	r, err := c.rules()
	if err != nil {
		return nil, err
	}
	i, err := c.identifier()
	if err != nil {
		return nil, err
	}
	l, err := c.limiter(store, logger)
	if err != nil {
		return nil, err
	}
	e := &lambdahttp.Environment{
		Limiter:     l,
		Rules:       r,
		Identifier:  i,
		Clock:       l.Now,
		Logger:      logger,
		BasePath:    c.BasePath,
		MaxDelay:    c.MaxDelay,
		CORSOrigins: c.CORSOrigins,
		SampleLogin: c.SampleLogin,
	}
	r.Observe(tell(e))
	return e, nil
}

func (c Config) limiter(store limiter.Store, logger *slog.Logger) (*limiter.Limiter, error) {
	cells, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	return limiter.New(store, limiter.Options{Timeout: c.timeout(), Logger: logger, Cells: cells})
}

func (c Config) identifier() (*caller.Identifier, error) {
	o := caller.Options{RequireCredential: c.RequireCredential, IPv6Bits: c.IPv6Bits}
	table, err := c.records(context.Background())
	if err != nil {
		return nil, err
	}
	if table != nil {
		o.APIKeys = caller.NewRemoteRecords(apikeys.NewTable(table))
	}
	if c.JWKS != "" {
		keys, err := c.keys(table)
		if err != nil {
			return nil, err
		}
		o.Tokens, err = caller.NewVerifier(caller.TokenOptions{
			Keys: keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience, Algorithms: c.JWTAlgorithms, UserClaim: c.JWTUserClaim, TierClaim: c.JWTTierClaim,
		})
		if err != nil {
			return nil, fmt.Errorf("environment: %w", err)
		}
	}
	if c.APIKeysFile != "" {
		list, err := os.ReadFile(c.APIKeysFile)
		if err != nil {
			return nil, fmt.Errorf("API_KEYS_FILE: %w", err)
		}
		secret, err := os.ReadFile(c.APIKeySecretFile)
		if err != nil {
			return nil, fmt.Errorf("API_KEY_SECRET_FILE: %w", err)
		}
		if o.APIKeys, err = caller.ParseAPIKeys(list, secret); err != nil {
			return nil, fmt.Errorf("API_KEYS_FILE %s, API_KEY_SECRET_FILE %s: %w", c.APIKeysFile, c.APIKeySecretFile, err)
		}
	}
	return caller.New(o), nil
}

// records returns the records table, nil if there is none.
func (c Config) records(ctx context.Context) (*records.Table, error) {
	if c.RecordsTable == "" {
		return nil, nil
	}
	client, err := c.sharedDynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	return records.NewTable(client, c.RecordsTable), nil
}

func (c Config) keys(table *records.Table) (caller.KeySource, error) {
	switch {
	case c.JWKS == contract.JWKSRecords:
		return caller.NewFetchedKeys(table.SigningKeys), nil
	case isURL(c.JWKS):
		return caller.NewRemoteKeys(c.JWKS)
	}
	document, err := os.ReadFile(c.JWKS)
	if err != nil {
		return nil, fmt.Errorf("JWKS: %w", err)
	}
	set, err := caller.ParseKeySet(document)
	if err != nil {
		return nil, fmt.Errorf("JWKS %s: %w", c.JWKS, err)
	}
	return set, nil
}
