package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/weir-limits/weir/limiter/telemetry"
)

// subjectKeyTimeout is what a start waits for the key of subject hashes.
const subjectKeyTimeout = 500 * time.Millisecond

// SubjectHash returns the hash that stands for callers in logs, metrics and events. Its key is
// that in RECORDS_TABLE or, locally, of SUBJECT_KEY_FILE. Where there is none, or the table does
// not answer, it is a random one: then hashes of this process compare with those of no other,
// which logger says. The error is of the file alone.
func (c Config) SubjectHash(ctx context.Context, logger *slog.Logger) (telemetry.SubjectHash, error) {
	if c.SubjectKeyFile != "" {
		key, err := os.ReadFile(c.SubjectKeyFile)
		if err == nil && len(key) < telemetry.MinSubjectKey {
			err = fmt.Errorf("%s: got %d bytes, want at least %d", c.SubjectKeyFile, len(key), telemetry.MinSubjectKey)
		}
		if err != nil {
			return nil, fmt.Errorf("SUBJECT_KEY_FILE: %w", err)
		}
		return telemetry.NewSubjectHash(c.Namespace, key), nil
	}
	table, err := c.records(ctx)
	if err != nil || table == nil {
		return telemetry.NewSubjectHash(c.Namespace, nil), err
	}
	ctx, cancel := context.WithTimeout(ctx, subjectKeyTimeout)
	defer cancel()
	key, err := table.SubjectKey(ctx)
	switch {
	case err != nil:
		logger.Warn("subject hash key not read: callers have other hashes in this environment", slog.Any("err", err))
	case key == nil:
		logger.Warn("no subject hash key: callers have other hashes in each environment; make one with weir hash --table")
	}
	return telemetry.NewSubjectHash(c.Namespace, key), nil
}
