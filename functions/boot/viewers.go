package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/origin"
)

// viewers returns the Viewers, which find the addresses of clients. It returns nil if these come only from the host. The secrets are in
// RECORDS_TABLE. Locally they come from SUBJECT_KEY_FILE.
func (c Config) viewers(ctx context.Context, logger *slog.Logger) (*origin.Viewers, error) {
	believed, err := origin.ParseBelieved(c.ViewerAddress)
	if err != nil || believed == (origin.Believed{}) {
		return nil, err
	}
	o := origin.Options{Believed: believed, Refuse: c.DirectRequests == contract.DirectRefuse, Logger: logger}
	if c.SubjectKeyFile != "" {
		key, err := os.ReadFile(c.SubjectKeyFile)
		if err != nil {
			return nil, fmt.Errorf("SUBJECT_KEY_FILE: %w", err)
		}
		o.Load = func(context.Context) (origin.Secrets, error) { return origin.Derive(key), nil }
		return origin.New(o), nil
	}
	client, err := c.sharedDynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	o.Load = func(ctx context.Context) (origin.Secrets, error) {
		return origin.Read(ctx, client, c.RecordsTable, c.Namespace)
	}
	return origin.New(o), nil
}
