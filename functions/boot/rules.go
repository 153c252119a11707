package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/weir-limits/weir/functions"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rulestore"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Each constant is the interval of reloads from one source.
const (
	fileEvery  = time.Second
	tableEvery = time.Minute
)

// unknownAge is the age that an environment reports for rules of unknown age. It exceeds the threshold of
// every alarm, and still fits a graph of real ages.
const unknownAge = time.Hour

// rules returns the rules. They come from a file on a developer's machine, from the configured
// source, or from the document in the function's bundle.
func (c Config) rules() (*live.Rules, error) {
	if c.Local && c.RulesFile != "" && c.RulesFrom == "" {
		read := func(context.Context) ([]byte, error) {
			text, err := os.ReadFile(c.InterventionsFile)
			if errors.Is(err, fs.ErrNotExist) { // also without the variable
				err = nil
			}
			return text, err
		}
		l := live.New(nil, source{Source: live.File{Path: c.RulesFile, Version: c.RulesVersion}, interventions: read},
			live.Options{Parse: c.parsing(), Every: fileEvery})
		return l, inRules(l.Refresh(context.Background(), time.Now()))
	}
	document, bundled, err := c.bundled()
	if err != nil {
		return nil, err
	}
	if c.RulesFrom == "" {
		return live.Fixed(bundled), nil
	}
	// The document of the bundle is in force until the first successful read of the source. It gets the lowest
	// version. States that were stored under rules of the source therefore keep the parameters of those rules.
	o := c.parsing()
	o.Assigned = true
	initial, err := rules.Parse(document.Content, o)
	if err != nil {
		return nil, err
	}
	// Published versions are Unix seconds, and the version of the bundle must not exceed them.
	if document.Version > time.Now().Unix() {
		document.Version = 1
	}
	table, err := c.records(context.Background())
	from := rulestore.NewSource(table)
	if c.RulesFrom == contract.RulesDeployment {
		from = rulestore.NewDeployedSource(table, c.Namespace)
	}
	read := func(ctx context.Context) ([]byte, error) { return rulestore.ReadInterventions(ctx, table) }
	return live.New(initial, source{from, document, read}, live.Options{Parse: o, Every: tableEvery}), err
}

// source is a live.Source that adds the interventions of operators. While it has no rules, it returns the document in the
// function's bundle.
type source struct {
	live.Source
	bundled       live.Document
	interventions func(context.Context) ([]byte, error)
}

// Document implements live.Source.
func (s source) Document(ctx context.Context) (live.Document, error) {
	d, err := s.Source.Document(ctx)
	if errors.Is(err, rulestore.ErrNoRules) {
		d, err = s.bundled, nil
	}
	if err == nil {
		d.Interventions, d.Unread = s.interventions(ctx)
	}
	return d, err
}

// inRules wraps an error of the rules. A list of mistakes begins on a new line.
func inRules(err error) error {
	if _, mistakes := errors.AsType[rules.Problems](err); mistakes {
		return fmt.Errorf("rules:\n%w", err)
	} else if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	return nil
}

func (c Config) parsing() rules.Options {
	// with Redis too, so that every store accepts a document
	o := rules.Options{MaxDelay: c.MaxDelay, Items: dynamostore.Items{}, OneRegion: c.Local, Regions: c.place()}
	if c.Table() != "" {
		o.LeaseAbove = rules.LeaseAboveDynamoDB
	}
	return o
}

// bundled reads the document in the function's bundle: the built-in document, or a file in the folder
// of the bootstrap.
func (c Config) bundled() (d live.Document, r *rules.Rules, err error) {
	d.Content = functions.Rules
	o := c.parsing()
	o.Version = c.RulesVersion
	if c.RulesFile != "" {
		d.Content, err = os.ReadFile(c.RulesFile)
		if err != nil {
			return d, nil, fmt.Errorf("rules: %w", err)
		}
	} else if o.Version == 0 {
		o.Version = commitTime()
	}
	r, err = rules.Parse(d.Content, o)
	if err != nil {
		return d, nil, inRules(err)
	}
	d.Version = r.Version()
	if d.Version == 0 && c.RulesFrom == contract.RulesDeployment { // any version that the deployment publishes is higher
		d.Version = 1
	}
	if d.Version == 0 && !c.Local { // without a new version, states would keep the parameters of the old document
		return d, nil, fmt.Errorf("rules: %w", rules.Problems{{Message: "no version; add a version to the document that grows with every " +
			"change, such as Unix seconds, or set RULES_VERSION"}})
	}
	return d, r, nil
}

// buildInfo describes how the program was built. Tests replace it.
var buildInfo = debug.ReadBuildInfo

// commitTime returns the time of the commit that the program was built from, in Unix seconds. It returns 0 if the program was
// built without version control.
func commitTime() int64 {
	info, ok := buildInfo()
	if !ok {
		return 0
	}
	for _, s := range info.Settings {
		if t, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
			return max(0, t.Unix())
		}
	}
	return 0
}

// countReloads returns an observer that records the rules in force and every rejected document. Until the source has
// confirmed the rules, it records the age unknownAge, which is high enough for an alarm. Otherwise environments with a
// short life would never cause an alarm.
func countReloads(recorder *telemetry.Recorder) func(time.Time, live.Reload) {
	started := time.Now()
	return func(now time.Time, n live.Reload) {
		confirmed := n.Confirmed
		if confirmed.IsZero() {
			confirmed = started.Add(-unknownAge)
		}
		recorder.Rules(now, n.Rules.Version(), confirmed, n.Rules.Labels(), n.Rules.Exemptions())
		if _, refused := errors.AsType[rules.Problems](n.Err); !n.Repeated && (refused || errors.Is(n.Err, live.ErrOlder)) {
			recorder.RulesRefused(now)
		}
	}
}

// reportRefusal returns an observer that warns if new rules want another form of refusals than the gateway responses of a REST API
// have, which a deployment writes.
func (c Config) reportRefusal(logger *slog.Logger) func(time.Time, live.Reload) {
	return func(_ time.Time, n live.Reload) {
		if got := n.Rules.Refusal(); n.Changed && c.Refusal != "" && got != c.Refusal {
			logger.Warn("refusals of the REST API keep their form until it is deployed with these rules", slog.String("form", c.Refusal),
				slog.String("rules", got))
		}
	}
}
