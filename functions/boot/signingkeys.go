package boot

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/caller"
)

type signingKeysConfig struct {
	RecordsTable     string `env:"RECORDS_TABLE, required"`
	JWKS             string `env:"JWKS, required"` // the URL of the issuer's keys
	DynamoDBEndpoint string `env:"DYNAMODB_ENDPOINT"`
	Local            bool   `env:"WEIR_LOCAL"`
}

func openSigningKeys(ctx context.Context, lookup func(string) (string, bool)) (*records.SigningKeys, error) {
	var c signingKeysConfig
	if err := ReadVariables(&c, lookup); err != nil {
		return nil, err
	}
	fetch, err := caller.FetchFrom(c.JWKS)
	if err != nil {
		return nil, fmt.Errorf("JWKS: %w", err)
	}
	// The client retries: no request waits for this call, and a repeated write changes nothing.
	patient, err := Config{DynamoDBEndpoint: c.DynamoDBEndpoint, Local: c.Local}.retryingClient(ctx, retry.NewStandard())
	if err != nil {
		return nil, err
	}
	return &records.SigningKeys{API: patient, Table: c.RecordsTable, Fetch: fetch, Clock: time.Now}, nil
}
