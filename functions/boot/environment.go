package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// Options are the parts of an Environment that do not come from variables.
type Options struct {
	// Logger is required.
	Logger *slog.Logger
	// Metrics is the destination of metrics. On Lambda it is standard output. nil means no metrics.
	Metrics io.Writer
	// Hash replaces the hash of subjects in metrics and log lines. nil means the hash that the variables select.
	Hash func(telemetry.SubjectHash) telemetry.SubjectHash
	// Clock is the clock of requests. nil means the clock of the Limiter, which corrects clock skew.
	Clock func() time.Time
	// Rules are the rules of another Environment of this process. nil means the rules that the variables select.
	Rules *live.Rules
	// Regions replaces the stores of Config.Regions. nil means tables of DynamoDB in these regions.
	Regions []limiter.Shares
	// Reloaded gets the result of each reload, unless Rules is set. nil means that the Logger logs it.
	Reloaded func(time.Time, live.Reload)
}

// Environment returns a complete Environment that uses store. It reads the files that c names. If o has
// Metrics, it also reads the key of subject hashes from the records table.
func (c Config) Environment(ctx context.Context, store limiter.Store, o Options) (*lambdahttp.Environment, error) {
	var recorder *telemetry.Recorder
	var err error
	if o.Metrics != nil {
		hash, err := c.subjectHash(ctx, o.Logger)
		if err != nil {
			return nil, err
		}
		if o.Hash != nil {
			hash = o.Hash(hash)
		}
		recorder = telemetry.New(o.Metrics, c.Namespace, hash)
		recorder.Sample(c.Sample)
		if skew, ok := limiter.StoreAs[limiter.SkewEstimator](store); ok {
			recorder.WatchClock(skew.ClockSkew)
		}
	}
	identifier, err := c.identifier()
	if err != nil {
		return nil, err
	}
	regions := o.Regions
	if regions == nil {
		regions, err = c.openRegions(ctx)
		if err != nil {
			return nil, err
		}
	}
	l, err := limiter.New(store, limiter.Options{Timeout: c.Timeout, Logger: o.Logger, Notify: recorder.Notice, Regions: regions})
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = l.Now
	}
	o.Rules, err = c.reportedRules(o, recorder)
	if err != nil {
		return nil, err
	}
	c.connectRegions(ctx, regions, o.Logger)
	ring, err := c.macs(ctx, mac.Load)
	if err != nil {
		return nil, err
	}
	var host *caller.ClaimNames
	if c.Identity != contract.IdentityWeir {
		host = new(c.claimNames())
	}
	return &lambdahttp.Environment{
		Host:    host,
		Limiter: l, Rules: o.Rules, Identifier: identifier, Clock: o.Clock, Logger: o.Logger, Recorder: recorder, MACs: ring,
		WeirBehind: c.BackEnd == contract.BackEndWeir, BehindAuthorizer: c.BehindAuthorizer,
		Viewers:   viewer.New(c.source, c.OriginSecret, c.OriginSecretBefore, o.Logger),
		BasePaths: c.BasePaths, APIKeyHeader: c.APIKeyHeader, MaxDelay: c.MaxDelay, CORSOrigins: c.CORSOrigins, ResponseStream: c.ResponseStream,
	}, nil
}

// reportedRules returns the rules of o, or those that the variables select. recorder reports the current rules and
// every reload. If the first document has mistakes, recorder counts it before reportedRules returns the error.
func (c Config) reportedRules(o Options, recorder *telemetry.Recorder) (*live.Rules, error) {
	r, now := o.Rules, o.Clock()
	if r == nil {
		var err error
		r, err = c.rules()
		if _, refused := errors.AsType[rules.Problems](err); refused {
			recorder.RulesRefused(now)
		}
		if err != nil {
			return nil, err
		}
		if o.Reloaded == nil {
			o.Reloaded = live.Log(o.Logger)
		}
		r.Observe(o.Reloaded)
	}
	r.Observe(c.reportRefusal(o.Logger))
	inForce := r.Current()
	recorder.Rules(now, inForce.Version(), time.Time{}, inForce.Labels(), inForce.Exemptions())
	r.Observe(countReloads(recorder))
	return r, nil
}

// FindRecord returns a function that finds the record of an API key by its id, for operators. It returns nil
// if there are no records. The function reads the whole table.
func (c Config) FindRecord(ctx context.Context) (find func(ctx context.Context, id string) (caller.Record, bool, error), err error) {
	switch {
	case c.APIKeysFile != "":
		keys := keysFile{c.APIKeysFile, c.APIKeySecretFile}
		_, err := keys.read()
		return keys.find, err
	case c.RecordsTable != "":
		client, err := c.onlyDynamoDBClient(ctx)
		return func(ctx context.Context, id string) (caller.Record, bool, error) {
			return apikeys.New(client, c.RecordsTable).Find(ctx, id)
		}, err
	}
	return nil, nil
}

func (c Config) identifier() (*caller.Identifier, error) {
	o := caller.Options{RequireCredential: c.RequireCredential, IPv6Bits: c.IPv6Bits,
		RefuseForeignKeys: c.ForeignAPIKeys != contract.ForeignKeysIgnored}
	table, err := c.records(context.Background())
	if err != nil {
		return nil, err
	}
	if table != nil {
		keys := caller.NewRemoteRecords(apikeys.NewTable(table))
		keys.AcceptForeign = c.ForeignAPIKeys == contract.ForeignKeysAccepted
		o.APIKeys = keys
	}
	if c.JWKS != "" {
		keys, err := c.keys(table)
		if err != nil {
			return nil, err
		}
		o.Tokens, err = caller.NewVerifier(caller.TokenOptions{
			Keys: keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience, Algorithms: c.JWTAlgorithms, Claims: c.claimNames(),
		})
		if err != nil {
			return nil, fmt.Errorf("environment: %w", err)
		}
	}
	if c.APIKeysFile != "" {
		keys := keysFile{c.APIKeysFile, c.APIKeySecretFile}
		if _, err := keys.read(); err != nil {
			return nil, err
		}
		o.APIKeys = keys
	}
	if c.APIKeyHeader == contract.NoAPIKeys || c.Identity == contract.IdentityHost {
		o.APIKeys = nil
	}
	return caller.New(o), nil
}

func (c Config) claimNames() caller.ClaimNames {
	names := caller.ClaimNames{User: c.UserClaim, Tier: c.TierClaim, Others: map[string]string{}}
	for _, claim := range c.Claims {
		name, path, _ := strings.Cut(claim, "=")
		names.Others[name] = path
	}
	return names
}

// records returns the records table. It returns nil if there is none.
func (c Config) records(ctx context.Context) (*records.Table, error) {
	if c.RecordsTable == "" {
		return nil, nil
	}
	client, err := c.onlyDynamoDBClient(ctx)
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
