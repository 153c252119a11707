package boot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/viewer"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/httplimit"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/rules"
)

// Config is the configuration of an environment. Each field is one variable. Load reads it.
type Config struct {
	// Store is the URL of the store of the counters: "memory:", "dynamodb://TABLE" or a URL whose scheme another package has
	// registered, such as redis://HOST:6379 (RegisterStore). Required. It can contain a password.
	Store string `env:"STORE"`
	// Namespace separates deployments that share a store, such as stages.
	Namespace string `env:"NAMESPACE, required"`

	// Regions are the regions that share limits with "regions": "shared", in an order that is the same in all of them. A
	// region with contract.WithoutShare joins or leaves the list, which then has a number (contract.ListNumber). In each region, the counters
	// are in a table with the same name. Without Regions, rules with such a limit are refused, because each region would admit
	// the whole limit.
	Regions []string `env:"REGIONS"`
	// Region is the region of this function, which Lambda sets.
	Region string `env:"AWS_REGION"`
	// DynamoDBEndpoint is the URL of a DynamoDB outside AWS. If it is empty, the client calls DynamoDB
	// in AWS.
	DynamoDBEndpoint string `env:"DYNAMODB_ENDPOINT"`
	// Timeout bounds how long a decision waits for the store. It must be less than a second. 0 means 50
	// ms for redis and 100 ms for dynamodb. The first decision of an environment can wait for 900 ms,
	// even if Timeout is shorter.
	Timeout time.Duration `env:"STORE_TIMEOUT"`

	// RulesFile is the file of the rules document. If it is empty, the built-in document is used.
	RulesFile string `env:"RULES_FILE"`
	// RulesFrom is the source of rules that change while functions run. "table" means the document that
	// `weir rules publish` writes to RECORDS_TABLE. "deployment" means the document that the deployment of
	// NAMESPACE publishes there. Until the table has a document, the document of RULES_FILE, or the built-in document, is
	// in force. If RulesFrom is empty, there is no source.
	RulesFrom string `env:"RULES_FROM"`
	// RulesVersion is the version of a rules document that has no field "version". It must grow with every change of
	// the document.
	RulesVersion int64 `env:"RULES_VERSION"`
	// MaxDelay bounds how long a request waits in the handler for its turn in a leaky bucket. 0 means
	// that a request does not wait. MaxDelay also bounds the depth of every leaky bucket. If the turn
	// comes later than httplimit.AnswerTime before the timeout of the function, the answer is 503 at once.
	MaxDelay time.Duration `env:"MAX_DELAY"`
	// BasePaths are the paths that custom domains of the API add before every path. "/" means that one adds none.
	BasePaths []string `env:"BASE_PATH"`
	// CORSOrigins are the origins whose pages may read answers. The only element * means every
	// origin. Empty means no origin.
	CORSOrigins []string `env:"CORS_ORIGINS"`

	// RecordsTable is the DynamoDB table of the API keys, the rules and the copy of the issuer's
	// keys. If both RecordsTable and APIKeysFile are empty, API keys are ignored.
	RecordsTable string `env:"RECORDS_TABLE"`

	// JWKS is the URL of the issuer's keys. The value contract.JWKSRecords selects the copy in
	// RECORDS_TABLE, for functions that cannot reach the issuer. A local run can use a file. If JWKS is
	// empty, tokens are ignored.
	JWKS          string   `env:"JWKS"`
	JWTIssuer     string   `env:"JWT_ISSUER"`
	JWTAudience   []string `env:"JWT_AUDIENCE"`
	JWTAlgorithms []string `env:"JWT_ALGORITHMS, default=RS256"`

	// Identity is what identifies callers. "weir" verifies the credentials in the fields of a request. "host" takes what
	// API Gateway, or a function URL with IAM, has verified from the event, and reads no credentials. "host+keys" also
	// reads API keys.
	Identity string `env:"IDENTITY, default=weir"`
	// UserClaim, TierClaim and Claims name claims by their paths, as in caller.ClaimNames, and with Identity host also
	// what the owner's Lambda authorizer returns. Each element of Claims is another name and a path: org=org.id.
	UserClaim string   `env:"USER_CLAIM, default=sub"`
	TierClaim string   `env:"TIER_CLAIM, default=tier"`
	Claims    []string `env:"CLAIMS"`

	// APIKeysFile contains API keys. APIKeySecretFile contains the secret that hashes them. Both
	// files replace RECORDS_TABLE in a local run. They are not allowed elsewhere.
	APIKeysFile      string `env:"API_KEYS_FILE"`
	APIKeySecretFile string `env:"API_KEY_SECRET_FILE"`

	// SubjectKeyFile contains the key of subject hashes, which represent callers in logs, metrics
	// and events. It replaces the key in RECORDS_TABLE in a local run and is not allowed elsewhere.
	SubjectKeyFile string `env:"SUBJECT_KEY_FILE"`
	// InterventionsFile has the blocks and raised limits of a local run. Elsewhere they are in RECORDS_TABLE.
	InterventionsFile string `env:"INTERVENTIONS_FILE"`

	// BackEnd is what answers the requests that the authorizer admits: "weir" is Weir's handler or layer, which decides
	// limits with a count, and "foreign" any other, which reports the costs to the function log.
	BackEnd string `env:"BACK_END, default=foreign"`
	// Refusal is the form that the gateway responses of a REST API have had since its deployment; see rules.Rules.Refusal. ""
	// means that there are none.
	Refusal string `env:"REFUSAL"`
	// BehindAuthorizer is true for a handler or layer behind the authorizer of Weir. It then believes the decision in the
	// context of a REST API's authorizer.
	BehindAuthorizer bool `env:"BEHIND_AUTHORIZER"`

	// ResponseStream is true for a function with the layer whose answers Lambda streams: the function URL has
	// the invoke mode RESPONSE_STREAM, or the integration of API Gateway has the response transfer mode STREAM.
	// The layer then streams its refusals.
	ResponseStream bool `env:"RESPONSE_STREAM"`

	// RequireCredential rejects anonymous callers.
	RequireCredential bool `env:"REQUIRE_CREDENTIAL"`
	// APIKeyHeader is the header field of API keys. "none" means that API keys identify no caller.
	APIKeyHeader string `env:"API_KEY_HEADER, default=x-api-key"`
	// ForeignAPIKeys decides a request with an API key that is not Weir's, such as a key of a usage plan. "ignore"
	// identifies the caller without the key. "refuse" answers 401. "accept" looks the key up, and answers 401 without a
	// record.
	ForeignAPIKeys string `env:"FOREIGN_API_KEYS, default=ignore"`
	// Address is the source of the client's address: "host", "cloudfront" for the field CloudFront-Viewer-Address, or
	// "hops:N" for an entry of X-Forwarded-For. The host appends the last entry, and "hops:1" is the entry before it. Fields
	// count only in requests with OriginSecret, or OriginSecretBefore, in the field Weir-Origin-Secret.
	Address            string `env:"ADDRESS, default=host"`
	OriginSecret       string `env:"ORIGIN_SECRET"`
	OriginSecretBefore string `env:"ORIGIN_SECRET_BEFORE"`
	// IPv6Bits is the prefix length of the network that counts as one IPv6 caller.
	IPv6Bits int `env:"IPV6_BITS, default=64"`

	// Sample writes a log line for one in so many requests that are not refused. 0 means none. Refused requests always have
	// lines.
	Sample int `env:"DECISION_SAMPLE"`

	// Local is true on a developer's machine. Key files are allowed only with it, because keys from
	// the sample files of a repository must not be valid on AWS.
	Local bool `env:"WEIR_LOCAL"`

	// AWS loads the region and the credentials. nil: they come from the variables that Lambda sets. Set this field after
	// Load.
	AWS func(ctx context.Context) (aws.Config, error)

	// dynamo is the client that the store and the records share. It is nil unless Load created the
	// Config.
	dynamo *dynamoClient
	source viewer.Source // of Address
}

// A pattern is compiled at its first use. Most functions use no pattern, and compiling one makes a cold
// start longer.
var (
	validBasePath = pattern(`^(/|(/[A-Za-z0-9$_.~+!*'()-]+)+)$`) // the characters of API Gateway's base paths
	validHeader   = pattern(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)
)

func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Load reads the variables with lookup, a function like os.LookupEnv. The error lists every invalid
// variable with the allowed values.
func Load(lookup func(string) (string, bool)) (Config, error) {
	var c Config
	if err := errors.Join(ReadVariables(&c, lookup), checkRemoved(lookup)); err != nil {
		return c, err
	}
	if c.JWKS == contract.JWKSRecords && c.JWTIssuer == "" && c.JWTAudience == nil { // the parameters of a template are empty
		c.JWKS = ""
	}
	c.dynamo = &dynamoClient{}
	return c, c.validate()
}

// removed are variables of earlier versions, with what to do instead.
var removed = map[string]string{
	"ALLOW_BYPASS":    "a function without the layer's wrapper script does not start; remove the layer to run it without limits",
	"DIRECT_REQUESTS": "a request without ORIGIN_SECRET counts by its source address",
	"EDGE_LIST":       "weir block and the stack infra/edge refuse callers at a distribution, and the setting waf floods",
	"EVENTS": "set DECISION_SAMPLE, and send the lines of the log: with the function log to Kafka, or with a subscription to " +
		"Kinesis or Firehose",
	"EVENTS_SAMPLE":   "set DECISION_SAMPLE",
	"JWT_TIER_CLAIM":  "set TIER_CLAIM",
	"JWT_USER_CLAIM":  "set USER_CLAIM",
	"KINESIS_STREAM":  "subscribe the stream to the log of the function",
	"NOTICE_BUS":      "subscribe your function to the notices in the logs",
	"REDIS_CLUSTER":   "add ?cluster=true to STORE",
	"REDIS_IAM_CACHE": "set STORE to rediss://USER@HOST:6379?iam_cache=NAME",
	"REDIS_IAM_USER":  "set STORE to rediss://USER@HOST:6379?iam_cache=NAME",
	"SIGN_LINES":      "the lines of notices have no signature",
	"VIEWER_ADDRESS":  "set ADDRESS to host, cloudfront or hops:N, and ORIGIN_SECRET",
}

func checkRemoved(lookup func(string) (string, bool)) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(removed)) {
		if value, _ := lookup(name); value != "" {
			problems = append(problems, fmt.Errorf("%s: no longer a setting; %s", name, removed[name]))
		}
	}
	return errors.Join(problems...)
}

func (c *Config) validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	check(contract.IsName(c.Namespace, 1, 64), "NAMESPACE: got %q, want 1 to 64 letters, digits, _, . and -", c.Namespace)
	c.checkStore(check)
	choice := func(name, got string, allowed ...string) {
		check(slices.Contains(allowed, got), "%s: got %.80q, want one of %s", name, got, strings.Join(allowed, ", "))
	}
	choice("FOREIGN_API_KEYS", c.ForeignAPIKeys, contract.ForeignKeysIgnored, contract.ForeignKeysRefused, contract.ForeignKeysAccepted)
	choice("IDENTITY", c.Identity, contract.IdentityWeir, contract.IdentityHost, contract.IdentityHostKeys)
	choice("BACK_END", c.BackEnd, contract.BackEndWeir, contract.BackEndForeign)
	if c.RulesFrom != "" {
		choice("RULES_FROM", c.RulesFrom, contract.RulesTable, contract.RulesDeployment)
	}
	c.checkRegions(check)
	check(c.RulesVersion >= 0 && c.RulesVersion <= limiter.MaxVersion, "RULES_VERSION: got %d, want 1 to %d, such as Unix seconds",
		c.RulesVersion, int64(limiter.MaxVersion))
	check(c.RulesFrom == "" || c.RecordsTable != "", "RECORDS_TABLE: required with RULES_FROM=%s: name of the table that holds the rules",
		c.RulesFrom)
	check(len(c.BasePaths) <= maxBasePaths, "BASE_PATH: got %d paths, want at most %d", len(c.BasePaths), maxBasePaths)
	for _, path := range c.BasePaths {
		check(validBasePath().MatchString(path) && rules.Plain(path),
			"BASE_PATH: got %q, want a path such as /v1, or several separated by commas", path)
	}
	check(c.Timeout >= 0 && c.Timeout < limiter.MinWindow, "STORE_TIMEOUT: got %s, want at least 0s and less than %s (0s means %s with "+
		"redis, %s with dynamodb)", c.Timeout, limiter.MinWindow, resilient.RedisTimeout, resilient.DynamoDBTimeout)
	for _, origin := range httplimit.BadOrigins(c.CORSOrigins) {
		check(false, "CORS_ORIGINS: got %q, want only *, or origins without a path (https://app.example.com, http://localhost:3000)", origin)
	}
	check(validHeader().MatchString(c.APIKeyHeader) && !strings.EqualFold(c.APIKeyHeader, "authorization") &&
		!strings.EqualFold(c.APIKeyHeader, "cookie"),
		"API_KEY_HEADER: got %q, want the name of a header field other than Authorization and Cookie, or %s", c.APIKeyHeader, contract.NoAPIKeys)
	var err error
	c.source, err = viewer.Parse(c.Address)
	check(err == nil, "ADDRESS: %w", err)
	check(c.source == viewer.Source{} || validSecret(c.OriginSecret),
		"ORIGIN_SECRET: got %d characters with ADDRESS=%s, want at least %d, without spaces", len(c.OriginSecret), c.Address,
		contract.MinOriginSecret)
	check(c.OriginSecretBefore == "" || validSecret(c.OriginSecretBefore),
		"ORIGIN_SECRET_BEFORE: got %d characters, want none or at least %d, without spaces", len(c.OriginSecretBefore), contract.MinOriginSecret)
	check(c.IPv6Bits >= 1 && c.IPv6Bits <= 128, "IPV6_BITS: got %d, want 1 to 128", c.IPv6Bits)
	check(c.JWKS == "" || c.JWTIssuer != "", "JWT_ISSUER: required with JWKS; otherwise tokens of any issuer with the same key are valid")
	check(c.JWKS == "" || c.JWTAudience != nil, "JWT_AUDIENCE: required with JWKS; otherwise tokens for other APIs are valid")
	check(c.Identity == contract.IdentityWeir || c.JWKS == "" && !c.BehindAuthorizer,
		"JWKS and BEHIND_AUTHORIZER: got one with IDENTITY=%s, want neither: the host has verified the caller", c.Identity)
	for _, claim := range c.Claims {
		name, path, _ := strings.Cut(claim, "=")
		check(name != "" && path != "", "CLAIMS: got %q, want a name and a path such as org=org.id", claim)
	}
	check(c.JWKS == "" || c.Local || c.JWKS == contract.JWKSRecords || isURL(c.JWKS),
		"JWKS: key file without WEIR_LOCAL=true (got %q, want a URL); key files are for local use", c.JWKS)
	check(c.JWKS != contract.JWKSRecords || c.RecordsTable != "",
		"RECORDS_TABLE: required with JWKS=%q: name of the table that holds the copy of the keys", contract.JWKSRecords)
	check(c.RecordsTable == "" || contract.IsName(c.RecordsTable, 3, 255),
		"RECORDS_TABLE: got %q, want the name of a DynamoDB table: 3 to 255 letters, digits, _, . and -", c.RecordsTable)
	check(c.RecordsTable == "" || c.APIKeysFile == "", "RECORDS_TABLE and API_KEYS_FILE: got both, want one; API keys have one source")
	for _, file := range [][2]string{{"API_KEYS_FILE", c.APIKeysFile}, {"SUBJECT_KEY_FILE", c.SubjectKeyFile},
		{"INTERVENTIONS_FILE", c.InterventionsFile}} {
		check(file[1] == "" || c.Local, "%s: file without WEIR_LOCAL=true (got %q, want none); such files are for local use", file[0], file[1])
	}
	check((c.APIKeysFile == "") == (c.APIKeySecretFile == ""), "API_KEYS_FILE and API_KEY_SECRET_FILE: got one, want both or none")
	check(c.MaxDelay >= 0 && c.MaxDelay <= maxMaxDelay, "MAX_DELAY: got %s, want 0s to %s", c.MaxDelay, maxMaxDelay)
	check(c.Sample >= 0 && c.Sample <= contract.MaxSample, "DECISION_SAMPLE: got %d, want 1 to %d (one line for this many requests), or 0 "+
		"for none", c.Sample, contract.MaxSample)
	return errors.Join(problems...)
}

// maxMaxDelay is the largest MaxDelay. After this time API Gateway stops waiting for a function.
const maxMaxDelay = 29 * time.Second

// maxBasePaths bounds the work for a path with many readings.
const maxBasePaths = 50

// validSecret reports whether s can be the secret of a distribution in a header field.
func validSecret(s string) bool {
	return len(s) >= contract.MinOriginSecret && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func isURL(s string) bool { return strings.Contains(s, "://") }
