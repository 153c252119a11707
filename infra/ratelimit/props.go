package ratelimit

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/weir-limits/weir/limiter/rules"
)

// Store is where the state lives.
type Store string

// The stores.
const (
	DynamoDB    Store = "dynamodb"    // a table, on demand
	ElastiCache Store = "elasticache" // ElastiCache Serverless for Valkey, in a VPC
)

// Props are what [New] is told. Namespace, Bundles and Rules must be there.
type Props struct {
	// Namespace separates deployments, such as stages: in keys, metrics and names. 1 to
	// 32 letters, digits and hyphens, from a letter on.
	Namespace string
	// Bundles is the folder with what `make functions` has built: authorizer/bootstrap
	// and, for an issuer's keys with ElastiCache, signingkeys/bootstrap.
	Bundles string
	// Rules is the rules document. It is checked when the stack is synthesized, and
	// goes into the bundle of every function that decides.
	Rules string
	// RulesVersion counts where the document has no version. 0: it must have one.
	RulesVersion int64
	// Store is where the state lives; "" is DynamoDB.
	Store Store
	// Vpc is where the cache and the functions are, with ElastiCache. Its isolated or
	// private subnets need a way to DynamoDB, such as its gateway endpoint. nil: one is
	// made, with no way to the internet.
	Vpc awsec2.IVpc

	// Tokens are the JWTs that are believed; nil: none.
	Tokens *Tokens
	// RequireCredential turns anonymous callers away with 401.
	RequireCredential bool
	// CORSOrigins are the origins whose pages may call, such as https://app.example, or
	// just "*". Credentials are not allowed. nil: none.
	CORSOrigins []string
	// MaxDelay is how long a function lets a request wait in a leaky bucket.
	MaxDelay time.Duration

	// Architecture is what the bundles were built for; nil is arm64.
	Architecture awslambda.Architecture
	// Tracing samples requests with X-Ray.
	Tracing bool
	// LogRetention is how long logs are kept; "" is one month.
	LogRetention awslogs.RetentionDays
	// ReservedConcurrency is how many requests the authorizer can have at once at
	// most, and how much of the account's concurrency nobody else gets. nil: no reserve.
	// Above it API Gateway answers 503: see the sizing formula in the README.
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

var validNamespace = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)

// check returns all that is wrong with p, one line each.
func (p *Props) check() error {
	var problems []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("ratelimit: "+format, args...))
		}
	}
	want(validNamespace.MatchString(p.Namespace), "Namespace: got %q, want 1 to 32 letters, digits and hyphens, from a letter on", p.Namespace)
	want(p.Store == "" || p.Store == DynamoDB || p.Store == ElastiCache, "Store: got %q, want %s or %s", p.Store, DynamoDB, ElastiCache)
	want(p.Vpc == nil || p.Store == ElastiCache, "Vpc: only %s has one", ElastiCache)
	want(p.MaxDelay >= 0 && p.MaxDelay < handlerTimeout, "MaxDelay: got %s, want 0s to less than %s", p.MaxDelay, handlerTimeout)
	want(p.ProvisionedConcurrency >= 0, "ProvisionedConcurrency: got %v, want 0 or more", p.ProvisionedConcurrency)
	want(p.ReservedConcurrency == nil || *p.ReservedConcurrency >= max(1, p.ProvisionedConcurrency), "ReservedConcurrency: want at least 1 and at least ProvisionedConcurrency: with less the authorizer never runs")
	if t := p.Tokens; t != nil {
		want(t.Issuer != "" && t.Audience != "" && t.JWKS != "", "Tokens: got issuer %q, audience %q and JWKS %q, want all three: without one, tokens meant for others are believed", t.Issuer, t.Audience, t.JWKS)
		want(t.JWKS == "" || isOrigin(t.JWKS, "https", true), "Tokens.JWKS: got %q, want an https URL", t.JWKS)
	}
	for _, o := range p.CORSOrigins {
		want(o == "*" && len(p.CORSOrigins) == 1 || isOrigin(o, "https", false) || isLocal(o),
			"CORSOrigins: got %q, want origins such as https://app.example, or just *", o)
	}
	problems = append(problems, p.checkFiles()...)
	return errors.Join(problems...)
}

// isOrigin reports whether text is a URL of a scheme; without a path unless it may have
// one.
func isOrigin(text, scheme string, path bool) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == scheme && u.Host != "" && u.User == nil &&
		(path || u.Path == "" && !strings.ContainsAny(text, "?#'\"\\"))
}

// isLocal reports whether an origin is on the machine of whoever has the page.
func isLocal(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && isOrigin(origin, "http", false) && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1")
}

// checkFiles reads the rules and looks for what was built.
func (p *Props) checkFiles() (problems []error) {
	if _, err := os.Stat(filepath.Join(p.Bundles, authorizerBundle, bootstrap)); err != nil {
		problems = append(problems, fmt.Errorf("ratelimit: Bundles: %w: build the functions first (make functions)", err))
	}
	document, err := os.ReadFile(p.Rules)
	if err != nil {
		return append(problems, fmt.Errorf("ratelimit: Rules: %w", err))
	}
	o := rules.Options{Version: p.RulesVersion, MaxDelay: p.MaxDelay}
	if p.Store != ElastiCache {
		o.LeaseAbove = rules.LeaseAboveDynamoDB
	}
	switch parsed, err := rules.Parse(document, o); {
	case err != nil:
		problems = append(problems, fmt.Errorf("ratelimit: Rules: %s has mistakes:\n%w", p.Rules, err))
	case parsed.Version() == 0:
		problems = append(problems, fmt.Errorf("ratelimit: Rules: %s says no version: add one that grows with every change, such as \"version\": %d, or set RulesVersion", p.Rules, 1))
	}
	return problems
}
