package live

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weir-limits/weir/limiter/rules"
)

// maxListed bounds the mistakes or limits that one log line lists.
const maxListed = 10

// Log returns an observer that logs every reload. It logs the mistakes of a document once.
func Log(logger *slog.Logger) func(time.Time, Reload) {
	return func(_ time.Time, n Reload) {
		ctx, version := context.Background(), slog.Int64("version", n.Rules.Version())
		switch problems, refused := errors.AsType[rules.Problems](n.Err); {
		case n.Changed:
			logger.LogAttrs(ctx, slog.LevelInfo, "rules changed", version)
			if count := len(n.Restarts); count > 0 {
				logger.LogAttrs(ctx, slog.LevelWarn, "counts restart, because the changed rules store them in other items", version,
					slog.Int("count", count), slog.Any("limits", n.Restarts[:min(count, maxListed)]))
			}
		case n.Err == nil && n.Intervened:
			logger.LogAttrs(ctx, slog.LevelInfo, "blocks and raised limits of operators changed", slog.Int("count",
				len(n.Rules.Interventions().List)))
		case n.Err == nil || n.Repeated:
		case errors.Is(n.Err, ErrOlder):
			logger.LogAttrs(ctx, slog.LevelError, "rules refused: older than the rules in force", version, slog.Any("err", n.Err))
		case refused:
			logger.LogAttrs(ctx, slog.LevelError, "rules refused: the document has mistakes; the previous rules stay in force", version,
				slog.Int("mistakes", len(problems)), slog.Any("err", problems[:min(len(problems), maxListed)]))
		default:
			logger.LogAttrs(ctx, slog.LevelWarn, "rules not read; the previous rules stay in force", version, slog.Any("err", n.Err))
		}
	}
}
