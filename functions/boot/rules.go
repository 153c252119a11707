package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/weir-limits/weir/functions"
	"github.com/weir-limits/weir/functions/app"
	"github.com/weir-limits/weir/limiter/rules"
)

// fileEvery is after how long at most a request sees that the rules' file has changed.
const fileEvery = time.Second

// rules returns the rules: the document that the function was deployed with or, on somebody's
// own machine, a file that may change.
func (c Config) rules() (*rules.Live, error) {
	if c.Local && c.RulesFile != "" {
		l := rules.NewLive(nil, rulesFile{c.RulesFile, c.RulesVersion}, rules.LiveOptions{Parse: c.parsing(), Every: fileEvery})
		return l, inRules(l.Refresh(context.Background(), time.Now()))
	}
	r, err := c.bundled()
	if err != nil {
		return nil, err
	}
	return rules.Fixed(r), nil
}

// inRules returns an error of reading the rules as it is told.
func inRules(err error) error {
	if _, mistakes := errors.AsType[rules.Problems](err); mistakes {
		return fmt.Errorf("rules:\n%w", err)
	} else if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

// parsing returns how rules are read.
func (c Config) parsing() rules.Options {
	o := rules.Options{MaxDelay: c.MaxDelay}
	if c.Store == "dynamodb" {
		o.LeaseAbove = rules.LeaseAboveDynamoDB
	}
	return o
}

// bundled reads the document that the function was deployed with: it is built in, or a file
// beside the bootstrap.
func (c Config) bundled() (*rules.Rules, error) {
	document, o := functions.Rules, c.parsing()
	o.Version = c.RulesVersion
	if c.RulesFile != "" {
		var err error
		if document, err = os.ReadFile(c.RulesFile); err != nil {
			return nil, fmt.Errorf("rules: %w", err)
		}
	} else if o.Version == 0 {
		o.Version = commitTime()
	}
	r, err := rules.Parse(document, o)
	if err != nil {
		return nil, inRules(err)
	}
	if r.Version() == 0 && !c.Local { // a change would then never act on state that is there already
		return nil, fmt.Errorf("rules: %w", rules.Problems{{Message: "the document says no version, and nothing else does: add a version to it that grows with every change, such as Unix seconds, or set RULES_VERSION to one"}})
	}
	return r, nil
}

// commitTime returns when the commit was made that the program was built from, in Unix
// seconds; 0 if it was built without version control.
func commitTime() int64 {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return 0
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				return max(0, t.Unix())
			}
		}
	}
	return 0
}

// rulesFile is a document on somebody's own machine. The version of one that says none is
// that which it was given or the time of the file, in milliseconds, so that what is written
// twice in a second has two. (The time of a file that was deployed says nothing: the bundle
// that it came in has one time for all.) It is a rules.Source.
type rulesFile struct {
	path    string
	version int64
}

// Document implements rules.Source.
func (f rulesFile) Document(context.Context) (rules.Document, error) {
	info, err := os.Stat(f.path) // before it is read: what is written meanwhile has another time
	if err != nil {
		return rules.Document{}, err
	}
	content, err := os.ReadFile(f.path)
	return rules.Document{Content: content, Version: cmp.Or(f.version, max(0, info.ModTime().UnixMilli()))}, err
}

// tell returns who tells what comes of reading e's rules: a version that has come into force,
// and once of each document why it has not. Rules that their source never had are as old as e.
func tell(e *app.Environment) func(time.Time, rules.News) {
	made := time.Now()
	return func(now time.Time, n rules.News) {
		ctx, confirmed := context.Background(), n.Confirmed
		if confirmed.IsZero() {
			confirmed = made
		}
		e.Recorder.Rules(now, n.Rules.Version(), confirmed, n.Rules.Labels())
		switch problems, refused := errors.AsType[rules.Problems](n.Err); {
		case n.Changed:
			e.Logger.LogAttrs(ctx, slog.LevelInfo, "rules changed", slog.Int64("version", n.Rules.Version()))
		case n.Err == nil || n.Repeated:
		case refused:
			e.Recorder.RulesRefused(now)
			const most = 10
			e.Logger.LogAttrs(ctx, slog.LevelError, "rules refused: those before stay in force", slog.Int64("version", n.Rules.Version()),
				slog.Int("mistakes", len(problems)), slog.Any("err", problems[:min(len(problems), most)]))
		default:
			e.Logger.LogAttrs(ctx, slog.LevelWarn, "rules not read: those before stay in force", slog.Int64("version", n.Rules.Version()), slog.Any("err", n.Err))
		}
	}
}
