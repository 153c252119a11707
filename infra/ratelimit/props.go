package ratelimit

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
)

// Store is a kind of store for the counters.
type Store string

// The kinds of stores.
const (
	DynamoDB    Store = "dynamodb"    // a table with on-demand capacity
	ElastiCache Store = "elasticache" // ElastiCache Serverless for Valkey, in a VPC
)

// LimitsProps are the properties of [NewLimits]. Namespace, Bundles (or Code) and Rules are required.
// A Namespace and the fields of Tokens can be parameters of a template.
type LimitsProps struct {
	// Namespace separates deployments, such as stages, in keys, metrics and names. It has 1 to 32
	// lower-case letters, digits and single hyphens, starts with a letter, and does not end with a
	// hyphen. Two deployments in one account and region need different namespaces.
	Namespace string
	// Bundles is the folder of the built functions: authorizer/bootstrap, and those of log and deploy if the limits need
	// them. `make functions` fills the folder.
	Bundles string
	// Code returns the code of a function or of the layer, for example in a bucket. bundle is the name of
	// its folder in Bundles. The code MUST contain the document of Rules as rules.json, or the files of
	// the layer (contract.LayerRules). nil means the folder in Bundles, to which the synthesis adds the
	// rules. With Code, Bundles is not used.
	Code func(bundle string) awslambda.Code
	// Rules is the path of the rules document. The synthesis validates the document. The bundle of
	// every function with the limiter contains it. With RulesFrom, it must have a version.
	Rules string
	// RulesFrom is the source of rules that change without a deployment. "table" means the records
	// table, where `weir rules` publishes them. Until the table has a document, the document of Rules is in force. "" means that a deployment
	// publishes Rules, and that its rollback publishes the previous document again.
	RulesFrom string

	// WeirBehind reports that Weir's handler or layer answers all requests that the authorizer admits. The authorizer then
	// leaves limits with count to it. Otherwise the back end is foreign: it reports the costs to ReportFunction.
	WeirBehind bool
	// Reports creates ReportFunction even if every limit of Rules counts requests. Set it if a document from RulesFrom can
	// have limits with count, and the back end is foreign.
	Reports bool

	// Store is the kind of store of the counters. "" means DynamoDB.
	Store Store
	// Vpc is the network of the functions and the cache, with ElastiCache. The functions use its isolated subnets, or else its
	// private subnets, in two or three zones. The subnets need a route to DynamoDB, such as its gateway endpoint. nil: the
	// construct creates a VPC without a route to the internet.
	Vpc awsec2.IVpc
	// Zones are two or three availability zones, such as eu-central-1a. A new VPC gets these zones;
	// in a given Vpc they select the subnets. Lambda and ElastiCache Serverless each lack some
	// zones of some regions. nil means the first two zones of the region, or the zones of the
	// subnets of Vpc.
	Zones []string
	// CacheGigabytes and CacheECPUs are the cache's maximum storage and its maximum ECPUs per
	// second, which bound its cost. 0 means 5 GB and 100,000 ECPUs per second.
	CacheGigabytes, CacheECPUs float64
	// Records is the name of the records table of an earlier deployment. "": the construct creates one, which
	// outlives the stack.
	Records string

	// Regions are the regions that share limits with "regions": "shared", such as eu-central-1 and us-east-1, in an order
	// that is the same in all of them. Each has limits with the same Namespace, in a stack whose Env has the region. The
	// first region creates the records table with a replica in each other region, unless Records is set, and the last one
	// publishes the rules. Deploy them in this order. A region with contract.WithoutShare joins or leaves the list, whose
	// number (contract.ListNumber) then grows: see infra/OPERATIONS.md. nil means one region.
	Regions []string

	// Kafka is a topic that gets the lines of decisions and notices. nil: they are only in the logs.
	Kafka *Kafka
	// DecisionSample writes a log line for one in so many requests that are not refused. 0 means none. Refused requests
	// always have lines.
	DecisionSample int

	// Tokens describes the JWTs that the functions accept. nil: tokens are ignored.
	Tokens *Tokens
	// Identity is what identifies callers: contract.IdentityWeir (also if empty), IdentityHost or IdentityHostKeys. With the
	// last two, functions with the limits get the caller from the API's own authorizer, IAM or mutual TLS; Attach and Tokens
	// are then mistakes, and so are an open function URL and a load balancer in front of such a function.
	Identity string
	// UserClaim and TierClaim are the paths of the claims with the user and the tier ("" means sub and tier), such as
	// cognito:groups or realm_access.roles. With IdentityHost they also name what the owner's Lambda authorizer returns.
	UserClaim, TierClaim string
	// Claims are more names of claims for rules, such as org=org.id.
	Claims []string
	// CORSOrigins are the origins whose pages may call the API, such as https://app.example, or
	// only "*". Cookies are not allowed. nil means none.
	CORSOrigins []string
	// Address is the source of a client's address: contract.AddressHost (also if empty), contract.AddressCloudFront, or
	// contract.AddressHops with a number. Behind a CDN or a proxy, a field counts only in requests with OriginSecret, or
	// PreviousOriginSecret, in the field Weir-Origin-Secret. The secrets are values of CloudFormation parameters, so that no
	// template contains them.
	Address                            string
	OriginSecret, PreviousOriginSecret string
	// MaxDelay is the longest wait of a request in a leaky bucket. 0: requests do not wait.
	MaxDelay time.Duration
	// Variables are more variables of functions/boot, such as BASE_PATH (for a custom domain), REQUIRE_CREDENTIAL (true rejects
	// anonymous callers with 401), JWT_ALGORITHMS or IPV6_BITS. Variables that another property sets are rejected.
	Variables map[string]string

	// Architecture is the architecture of the bundles: arm64 (also if empty) or x86_64. With Code, it can be a parameter.
	Architecture string
	// LogRetention is the retention of the functions' logs. "" means one month.
	LogRetention awslogs.RetentionDays
	// ReservedConcurrency is the maximum number of concurrent requests in the authorizer. It takes
	// this part of the account's concurrency from all other functions. API Gateway answers 503 to
	// requests above it. It must be at most the smallest local_processes in the rules;
	// infra/README.md has the formula. nil reserves nothing.
	ReservedConcurrency *float64
	// Key encrypts the tables that the construct creates. nil means the key of DynamoDB. It is not for several Regions,
	// because a key is in one region.
	Key awskms.IKey
	// PermissionsBoundary limits the roles of the functions. nil means none.
	PermissionsBoundary awsiam.IManagedPolicy
	// AlarmAction is the action of every alarm. nil means no action.
	AlarmAction awscloudwatch.IAlarmAction

	document []byte       // content of Rules; check reads it
	found    boot.Checked // what check found in it
}

// Tokens describes the JWTs that the functions accept. All fields are required.
type Tokens struct {
	Issuer   string // value of the claim iss
	Audience string // value of the claim aud, or without it of client_id; or several, separated by commas
	JWKS     string // https URL of the issuer's public keys
}

var validNamespace = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// maxNamespace is the maximum length of a namespace. A cache's name contains the namespace, and may
// have 40 characters.
const maxNamespace = 32

// check returns the mistakes in p for limits in a stack, one per line.
func (p *LimitsProps) check(in awscdk.Stack) error {
	var problems []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("ratelimit: "+format, args...))
		}
	}
	want(unresolved(p.Namespace) || len(p.Namespace) <= maxNamespace && validNamespace.MatchString(p.Namespace),
		"Namespace: got %q, want 1 to %d lower-case letters, digits and single hyphens, starting with a letter", p.Namespace, maxNamespace)
	want(p.Store == "" || p.Store == DynamoDB || p.Store == ElastiCache, "Store: got %q, want %s or %s", p.Store, DynamoDB, ElastiCache)
	want(p.inNetwork() || p.Vpc == nil && p.Zones == nil, "Vpc, Zones: want none; only %s uses a network", ElastiCache)
	want(p.MaxDelay < handlerTimeout, "MaxDelay: got %s, want less than %s, the timeout of a function", p.MaxDelay, handlerTimeout)
	want(p.ReservedConcurrency == nil || *p.ReservedConcurrency >= 1, "ReservedConcurrency: want at least 1; 0 stops the authorizer")
	if t := p.Tokens; t != nil {
		want(t.Issuer != "" && t.Audience != "" && (unresolved(t.JWKS) || strings.HasPrefix(t.JWKS, "https://")), "Tokens: got issuer %q, "+
			"audience %q and JWKS %q, want all three, and an https URL; otherwise the functions would accept tokens for other APIs", t.Issuer,
			t.Audience, t.JWKS)
	}
	for _, secret := range []string{p.OriginSecret, p.PreviousOriginSecret} {
		want(secret == "" || unresolved(secret), "OriginSecret: got a text, want the value of a CloudFormation parameter with NoEcho; a "+
			"template must not contain a secret")
	}
	want(p.Key == nil || p.Regions == nil, "Key: got a key, want none with Regions")
	first, _, _ := strings.Cut(strings.Join(p.Regions, ","), ",")
	want(!strings.HasSuffix(first, contract.WithoutShare), "Regions: got %s first, want a region with a share: it has the records, so it "+
		"cannot join or leave", first)
	want(p.Regions == nil || slices.Contains(contract.RegionNames(p.Regions), *in.Region()), "Regions: the stack %s is in the region %s, "+
		"want one of %v; set Env.Region of the stack", *in.StackName(), *in.Region(), p.Regions)
	p.checkKafka(want)
	p.checkDeployment(want)
	return errors.Join(problems...)
}

// fronted reports whether the functions believe a field of the request for the client's address.
func (p *LimitsProps) fronted() bool { return p.Address != "" && p.Address != contract.AddressHost }

// byHost reports whether the host of a function verifies its callers.
func (p *LimitsProps) byHost() bool {
	return p.Identity == contract.IdentityHost || p.Identity == contract.IdentityHostKeys
}

// unresolved reports whether s contains a value that is known only in the deployment, such as a
// parameter. CloudFormation checks it then.
func unresolved(s string) bool { return *awscdk.Token_IsUnresolved(s) }

// variables returns the variables of every function that makes decisions, as far as they are known
// at synthesis.
func (p *LimitsProps) variables() map[string]string {
	v := map[string]string{
		contract.VariableNamespace: p.Namespace, contract.VariableRulesFile: taskRoot + rulesFile, contract.VariableRulesFrom: cmp.Or(p.RulesFrom,
			contract.RulesDeployment),
		contract.VariableRegions: strings.Join(p.Regions, ","), contract.VariableUserClaim: p.UserClaim,
		contract.VariableTierClaim: p.TierClaim, contract.VariableClaims: strings.Join(p.Claims, ","), contract.VariableIdentity: p.Identity,
	}
	if p.DecisionSample != 0 {
		v[contract.VariableSample] = strconv.Itoa(p.DecisionSample)
	}
	if p.MaxDelay != 0 {
		v[contract.VariableMaxDelay] = p.MaxDelay.String()
	}
	if p.fronted() {
		v[contract.VariableAddress], v[contract.VariableOriginSecret], v[contract.VariableSecretBefore] = p.Address, p.OriginSecret,
			p.PreviousOriginSecret
	}
	if t := p.Tokens; t != nil {
		v[contract.VariableJWKS], v[contract.VariableJWTIssuer], v[contract.VariableJWTAudience] = t.JWKS, t.Issuer, t.Audience
		if p.inNetwork() { // functions in the VPC cannot reach the issuer, so they read its keys from the records table
			v[contract.VariableJWKS] = contract.JWKSRecords
		}
	}
	maps.DeleteFunc(v, func(_, value string) bool { return value == "" })
	v[contract.VariableCORSOrigins] = strings.Join(p.CORSOrigins, ",") // also without origins
	return v
}

// checkBundle returns an error if a function is missing or built for another architecture.
func (p *LimitsProps) checkBundle(bundle string) error {
	path, name := filepath.Join(bundle, bootstrap), filepath.Base(bundle)
	arch, machine := "arm64", elf.EM_AARCH64
	if p.Architecture == "x86_64" {
		arch, machine = "amd64", elf.EM_X86_64
	}
	build := fmt.Sprintf("GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -tags lambda.norpc,nethttpomithttp2 -trimpath -ldflags \"-s -w\" -o "+
		"%s PACKAGE, such as github.com/weir-limits/weir/functions/%s", arch, path, name)
	f, err := elf.Open(path)
	if err == nil {
		defer func() { _ = f.Close() }()
		if f.Machine == machine {
			return nil
		}
		err = fmt.Errorf("built for %s", f.Machine)
	}
	return fmt.Errorf("bootstrap: got %w, want a program for Linux and %s; build it (make functions, or %s)", err, machine, build)
}
