package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// subjectKeyTimeout bounds how long a start waits for the key of subject hashes. The start needs the
// rest of its deadline to open the connection to the store.
const subjectKeyTimeout = 500 * time.Millisecond

// subjectKey reads SUBJECT_KEY_FILE. In a local run, the other keys are derived from its content.
func (c Config) subjectKey() ([]byte, error) {
	key, err := os.ReadFile(c.SubjectKeyFile)
	if err == nil && len(key) < telemetry.MinSubjectKey {
		err = fmt.Errorf("%s: got %d bytes, want at least %d", c.SubjectKeyFile, len(key), telemetry.MinSubjectKey)
	}
	if err != nil {
		return nil, fmt.Errorf("SUBJECT_KEY_FILE: %w", err)
	}
	return key, nil
}

// subjectHash returns the hash that represents callers in logs, metrics and events. Its key is in RECORDS_TABLE,
// where the first environment of a deployment creates it. Locally it is in SUBJECT_KEY_FILE. If the table fails,
// subjectHash logs a warning and uses a random key. If neither variable is set, it uses a random key without a
// warning. With a random key, each process has other hashes. It returns an error only for the file or the AWS
// configuration.
func (c Config) subjectHash(ctx context.Context, logger *slog.Logger) (telemetry.SubjectHash, error) {
	switch {
	case c.SubjectKeyFile != "":
		key, err := c.subjectKey()
		return telemetry.NewSubjectHash(c.Namespace, key), err
	case c.RecordsTable == "":
		return telemetry.NewSubjectHash(c.Namespace, nil), nil
	}
	table, err := c.keyRecords(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, subjectKeyTimeout)
	defer cancel()
	key, err := records.LoadSecret(ctx, table, c.RecordsTable, contract.SubjectKeyKey)
	if err != nil {
		logger.Warn("subject hash key not read; this environment uses a random key, so its hashes differ from those of other environments",
			slog.Any("err", err))
	}
	return telemetry.NewSubjectHash(c.Namespace, key), nil
}

// macs returns the Ring of MACs. Its key is in RECORDS_TABLE, from which load reads it. Locally it comes from
// SUBJECT_KEY_FILE, so that the functions of a run share it. If neither variable is set, the result is nil.
func (c Config) macs(ctx context.Context, load func(context.Context, records.ReadWriter, string) ([]byte, error)) (*mac.Ring, error) {
	switch {
	case c.SubjectKeyFile != "":
		key, err := c.subjectKey()
		return mac.Fixed(c.Namespace, key), err
	case c.RecordsTable == "":
		return nil, nil
	}
	client, err := c.onlyDynamoDBClient(ctx)
	if err != nil {
		return nil, err
	}
	table, err := c.keyRecords(ctx)
	if err != nil {
		return nil, err
	}
	scope := mac.Scope{Namespace: c.Namespace, Region: client.Options().Region}
	return mac.NewRing(scope, func(ctx context.Context) ([]byte, error) { return load(ctx, table, c.RecordsTable) }), nil
}
