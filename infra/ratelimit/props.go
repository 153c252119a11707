package ratelimit

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/weir-limits/weir/functions/contract"
)

// Store is where the state lives.
type Store string

// The stores.
const (
	DynamoDB    Store = "dynamodb"    // a table, on demand
	ElastiCache Store = "elasticache" // ElastiCache Serverless for Valkey, in a VPC
)

// LimitsProps are what [NewLimits] is told. Namespace, Bundles and Rules must be there.
type LimitsProps struct {
	// Namespace separates deployments, such as stages: in keys, metrics and names. 1 to
	// 32 small letters, digits and single hyphens between them, from a letter on. Two in one account and region are
	// different.
	Namespace string
	// Bundles is the folder with what `make functions` has built: authorizer/bootstrap
	// and, for an issuer's keys where the functions are in a network, signingkeys/bootstrap.
	Bundles string
	// Rules is the rules document. It is checked when the stack is synthesized, and
	// goes into the bundle of every function that decides.
	Rules string
	// RulesVersion counts where the document has no version. 0: it must have one.
	RulesVersion int64
	// RulesFrom is where rules are that change without a deploy: "table", the records, into
	// which `weir rules put` puts them, or "appconfig:APPLICATION/ENVIRONMENT/PROFILE", by
	// ids. Until there are any those of Rules hold. "": a deploy alone changes them.
	RulesFrom string
	// AppConfigLayer is the ARN of the layer version of AppConfig's agent, which is another in
	// each region and for each architecture, for RulesFrom appconfig alone.
	AppConfigLayer string

	// Store is where the state lives; "" is DynamoDB.
	Store Store
	// Vpc is where the functions are and, with ElastiCache, the cache, or the brokers of
	// Events.Kafka: in its isolated
	// subnets, or the private ones if it has none, in two or three zones. They need a way to DynamoDB, such as
	// its gateway endpoint. nil: one is made, with no way to the internet.
	Vpc awsec2.IVpc
	// Zones are the two or three availability zones of the network, by name, such as eu-central-1a:
	// of the one that is made, or of the subnets of Vpc that are used. Lambda and ElastiCache
	// Serverless each refuse some zones of some regions. nil: the first two of the region, or those
	// of the subnets of Vpc.
	Zones []string
	// CacheGigabytes and CacheECPUs are what the cache may grow to, in storage and in
	// units a second, and cost at most; 0 is 5 and 100,000.
	CacheGigabytes, CacheECPUs float64
	// WarmWrites is how many write units a second the table of counters takes at once, with DynamoDB:
	// at least 4,000, which a new table takes anyway. AWS charges for more, once, and refuses to lower
	// it later: infra/README.md has the formula. 0 leaves it to DynamoDB.
	WarmWrites float64
	// Records is the table of API keys of a deployment that was there before; nil makes
	// one, which is kept when the stack goes.
	Records awsdynamodb.ITable

	// Events are what takes events of decisions; nil: nothing does.
	Events *Events

	// Tokens are the JWTs that are believed; nil: none.
	Tokens *Tokens
	// RequireCredential turns anonymous callers away with 401.
	RequireCredential bool
	// CORSOrigins are the origins whose pages may call, such as https://app.example, or
	// just "*". Credentials are not allowed. nil: none.
	CORSOrigins []string
	// MaxDelay is how long a function lets a request wait in a leaky bucket.
	MaxDelay time.Duration
	// Variables are others that functions/boot knows, such as BASE_PATH (of a custom
	// domain), JWT_ALGORITHMS, JWT_TIER_CLAIM or IPV6_BITS.
	Variables map[string]string

	// Architecture is what the bundles were built for; nil is arm64.
	Architecture awslambda.Architecture
	// Tracing samples requests with X-Ray.
	Tracing bool
	// LogRetention is how long logs are kept; "" is one month.
	LogRetention awslogs.RetentionDays
	// ReservedConcurrency is how many requests the authorizer can have at once at
	// most, and how much of the account's concurrency nobody else gets. nil: no reserve.
	// Above it API Gateway answers 503: infra/README.md has the sizing formula. It is at most
	// the least local_processes of the rules.
	ReservedConcurrency *float64
	// ProvisionedConcurrency is how many environments of the authorizer are kept warm; 0
	// is none.
	ProvisionedConcurrency float64
	// AlarmAction is what alarms do; nil: they only show.
	AlarmAction awscloudwatch.IAlarmAction
}

// Tokens says whose JWTs are believed. All fields must be there.
type Tokens struct {
	Issuer   string // the iss that tokens must have
	Audience string // the aud that they must have
	JWKS     string // the https URL of the issuer's public keys
}

var validNamespace = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// maxNamespace leaves room in the name of a cache, which has 40 characters.
const maxNamespace = 32

// check returns all that is wrong with p, one line each.
func (p *LimitsProps) check() error {
	var problems []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("ratelimit: "+format, args...))
		}
	}
	want(len(p.Namespace) <= maxNamespace && validNamespace.MatchString(p.Namespace), "Namespace: got %q, want 1 to %d small letters, digits and single hyphens between them, from a letter on", p.Namespace, maxNamespace)
	want(p.Store == "" || p.Store == DynamoDB || p.Store == ElastiCache, "Store: got %q, want %s or %s", p.Store, DynamoDB, ElastiCache)
	want(p.Vpc == nil || p.inNetwork(), "Vpc: only %s and Events.Kafka have one", ElastiCache)
	p.checkZones(want)
	want(p.WarmWrites == 0 || p.Store != ElastiCache, "WarmWrites: got %v, want none with %s, which has no table of counters", p.WarmWrites, ElastiCache)
	want(p.WarmWrites == 0 || p.WarmWrites >= NewTableWrites && p.WarmWrites == math.Trunc(p.WarmWrites), "WarmWrites: got %v, want a whole number from %d on, which a new table takes anyway", p.WarmWrites, NewTableWrites)
	want(p.MaxDelay < handlerTimeout, "MaxDelay: got %s, want less than %s, which a function has", p.MaxDelay, handlerTimeout)
	want(p.ProvisionedConcurrency >= 0 && p.ProvisionedConcurrency == math.Trunc(p.ProvisionedConcurrency), "ProvisionedConcurrency: got %v, want a whole number", p.ProvisionedConcurrency)
	want(p.ReservedConcurrency == nil || *p.ReservedConcurrency >= max(1, p.ProvisionedConcurrency), "ReservedConcurrency: want at least 1 and at least ProvisionedConcurrency: with less the authorizer never runs")
	if t := p.Tokens; t != nil {
		want(t.Issuer != "" && t.Audience != "" && t.JWKS != "", "Tokens: got issuer %q, audience %q and JWKS %q, want all three: without one, tokens meant for others are believed", t.Issuer, t.Audience, t.JWKS)
		want(t.JWKS == "" || strings.HasPrefix(t.JWKS, "https://"), "Tokens.JWKS: got %q, want an https URL", t.JWKS)
	}
	p.checkEvents(want)
	p.checkRulesFrom(want)
	problems = append(problems, p.checkDeployment()...)
	problems = append(problems, p.checkBundles()...)
	return errors.Join(problems...)
}

// variables returns those of every function that decides, as far as they are known before
// the stack is deployed.
func (p *LimitsProps) variables() map[string]string {
	v := map[string]string{
		contract.VariableNamespace: p.Namespace, contract.VariableRulesFile: taskRoot + rulesFile, contract.VariableCORSOrigins: strings.Join(p.CORSOrigins, ","),
	}
	if p.RulesVersion != 0 {
		v[contract.VariableRulesVersion] = strconv.FormatInt(p.RulesVersion, 10)
	}
	if p.RulesFrom != "" {
		v[contract.VariableRulesFrom] = p.RulesFrom
	}
	if p.MaxDelay != 0 {
		v[contract.VariableMaxDelay] = p.MaxDelay.String()
	}
	if p.RequireCredential {
		v[contract.VariableRequireCredential] = "true"
	}
	if t := p.Tokens; t != nil {
		v[contract.VariableJWKS], v[contract.VariableJWTIssuer], v[contract.VariableJWTAudience] = t.JWKS, t.Issuer, t.Audience
		if p.inNetwork() { // the functions do not reach the issuer
			v[contract.VariableJWKS] = contract.JWKSRecords
		}
	}
	return v
}

// checkBundles reports the functions that are not built.
func (p *LimitsProps) checkBundles() (problems []error) {
	names := []string{contract.Authorizer}
	if p.inNetwork() && p.Tokens != nil {
		names = append(names, contract.SigningKeys)
	}
	for _, name := range names {
		if err := p.checkBundle(name); err != nil {
			problems = append(problems, fmt.Errorf("ratelimit: Bundles: %w", err))
		}
	}
	return problems
}

// checkBundle looks whether a function was built, for the architecture that it will run on.
func (p *LimitsProps) checkBundle(name string) error {
	path := filepath.Join(p.Bundles, name, bootstrap)
	arch, machine := "arm64", elf.EM_AARCH64
	if p.Architecture != nil && *p.Architecture.Name() == "x86_64" {
		arch, machine = "amd64", elf.EM_X86_64
	}
	build := fmt.Sprintf("GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -tags lambda.norpc -trimpath -ldflags \"-s -w\" -o %s github.com/weir-limits/weir/functions/%s", arch, path, name)
	f, err := elf.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there: build it (make functions, or %s)", path, build)
	case err != nil:
		return fmt.Errorf("%s is no program for Linux (%w): build it (%s)", path, err, build)
	}
	defer func() { _ = f.Close() }()
	if f.Machine != machine {
		return fmt.Errorf("%s is for %s, want %s: build it (%s)", path, f.Machine, machine, build)
	}
	return nil
}
