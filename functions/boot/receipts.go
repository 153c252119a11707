package boot

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/weir-limits/weir/functions/receipts"
)

// receipts returns the keys of receipts. They are in RECORDS_TABLE, where the first function that seals a
// receipt creates them. Locally they come from SUBJECT_KEY_FILE, so that the functions of a run share
// them. If neither variable is set, the result is nil, and there are no receipts.
func (c Config) receipts(ctx context.Context) (*receipts.Ring, error) {
	switch {
	case c.SubjectKeyFile != "":
		key, err := os.ReadFile(c.SubjectKeyFile)
		if err != nil {
			return nil, fmt.Errorf("SUBJECT_KEY_FILE: %w", err)
		}
		return receipts.Fixed(c.Namespace, receipts.DeriveKeys(key)), nil
	case c.RecordsTable == "":
		return nil, nil
	}
	client, err := c.sharedDynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	table, err := c.keyRecords(ctx)
	if err != nil {
		return nil, err
	}
	return receipts.NewRing(c.receiptScope(client), func(ctx context.Context) (receipts.Keys, error) { return receipts.Load(ctx, table, c.RecordsTable) }), nil
}

// receiptScope returns the scope of receipts whose keys are in RECORDS_TABLE.
func (c Config) receiptScope(client *dynamodb.Client) receipts.Scope {
	return receipts.Scope{Namespace: c.Namespace, Region: client.Options().Region}
}
