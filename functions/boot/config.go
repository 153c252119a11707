package boot

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
)

// Config is what the variables of an environment say. Read it with Load.
type Config struct {
	// Store is where state lives: dynamodb, redis or memory.
	Store string `env:"STORE, default=dynamodb"`
	// Namespace separates deployments that share a store, such as stages.
	Namespace string `env:"NAMESPACE, required"`

	// Table is the DynamoDB table of the state.
	Table string `env:"TABLE"`
	// DynamoDBEndpoint is where DynamoDB is, if not at AWS.
	DynamoDBEndpoint string `env:"DYNAMODB_ENDPOINT"`
	// RedisURL is a redis:// or rediss:// URL.
	RedisURL string `env:"REDIS_URL"`
	// RedisCluster says that it is a cluster, such as any ElastiCache Serverless cache.
	RedisCluster bool `env:"REDIS_CLUSTER"`
	// RedisIAMUser is the id of the ElastiCache user that logs in by IAM, with the
	// environment's own credentials; RedisIAMCache is the serverless cache's name.
	RedisIAMUser  string `env:"REDIS_IAM_USER"`
	RedisIAMCache string `env:"REDIS_IAM_CACHE"`
	// Timeout is the time that the store has for a decision, less than a second; 0 means 50
	// ms for redis and 100 ms for dynamodb. The first decision has 900 ms if that is more.
	Timeout time.Duration `env:"STORE_TIMEOUT"`

	// RulesFile is the rules document; without it the one that is built in.
	RulesFile string `env:"RULES_FILE"`
	// RulesFrom is where the rules are that may change while functions run: table, which is
	// the item that `weir rules put` writes in RECORDS_TABLE, or
	// appconfig:APPLICATION/ENVIRONMENT/PROFILE. The document of RULES_FILE, or the one that is
	// built in, is in force until there is one. Empty: that one alone.
	RulesFrom string `env:"RULES_FROM"`
	// AppConfigPort is where AppConfig's agent listens.
	AppConfigPort int `env:"AWS_APPCONFIG_EXTENSION_HTTP_PORT, default=2772"`
	// RulesVersion is the version of a document that says none; it grows with every change.
	RulesVersion int64 `env:"RULES_VERSION"`
	// MaxDelay is how long the handler lets a request wait for its turn in a leaky bucket;
	// 0: not at all. It makes queues no deeper in all functions that have it.
	MaxDelay time.Duration `env:"MAX_DELAY"`
	// BasePath is what the API's custom domain puts before every path.
	BasePath string `env:"BASE_PATH"`
	// CORSOrigins are the origins whose pages may read the answers, or * alone; empty: none.
	CORSOrigins []string `env:"CORS_ORIGINS"`

	// RecordsTable is the DynamoDB table of the API keys' records and of the copy of the
	// issuer's keys. Without it or API_KEYS_FILE API keys mean nothing.
	RecordsTable string `env:"RECORDS_TABLE"`

	// JWKS is the URL of the issuer's keys; contract.JWKSRecords for the copy that the function
	// signingkeys keeps of them in RECORDS_TABLE, where functions do not reach the issuer; or,
	// locally, a file. Without it tokens mean nothing.
	JWKS          string   `env:"JWKS"`
	JWTIssuer     string   `env:"JWT_ISSUER"`
	JWTAudience   string   `env:"JWT_AUDIENCE"`
	JWTAlgorithms []string `env:"JWT_ALGORITHMS, default=RS256"`
	JWTUserClaim  string   `env:"JWT_USER_CLAIM"`
	JWTTierClaim  string   `env:"JWT_TIER_CLAIM"`

	// APIKeysFile and APIKeySecretFile are the records of API keys and the secret of
	// their hashes, in place of RECORDS_TABLE; local only.
	APIKeysFile      string `env:"API_KEYS_FILE"`
	APIKeySecretFile string `env:"API_KEY_SECRET_FILE"`

	// SubjectKeyFile is the key of the hashes that stand for callers in logs, metrics and
	// events, in place of that in RECORDS_TABLE; local only.
	SubjectKeyFile string `env:"SUBJECT_KEY_FILE"`

	// RequireCredential turns anonymous callers away.
	RequireCredential bool `env:"REQUIRE_CREDENTIAL"`
	// IPv6Bits is the length of the network that counts as one IPv6 caller.
	IPv6Bits int `env:"IPV6_BITS, default=64"`

	// SampleLogin is a user:password for the login of the sample API.
	SampleLogin string `env:"SAMPLE_LOGIN"`

	EventsConfig

	// Local says that this runs on somebody's own machine. Key files are refused
	// without it: what a repository's sample files sign must not be believed at AWS.
	Local bool `env:"WEIR_LOCAL"`

	// dynamo is the client that the store and the records share, if Load has made this.
	dynamo *dynamoClient
}

var (
	validNamespace = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	validCache     = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	validOrigin    = regexp.MustCompile(`^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|\[::1\]))(:[0-9]{1,5})?$`)
	validTable     = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)
	validBasePath  = regexp.MustCompile(`^(/[A-Za-z0-9_.~-]+)+$`)
)

// Load reads the variables by lookup, which has the form of os.LookupEnv. The error
// names every variable that is wrong, with what is allowed.
func Load(lookup func(string) (string, bool)) (Config, error) {
	var c Config
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{Target: &c, Lookuper: lookuper(lookup)})
	if err != nil {
		return c, fmt.Errorf("environment: %w", err)
	}
	c.dynamo = &dynamoClient{}
	return c, c.validate()
}

func (c *Config) validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	check(validNamespace.MatchString(c.Namespace), "NAMESPACE: got %q, want 1 to 64 letters, digits, _, . and -", c.Namespace)
	switch c.Store {
	case "dynamodb":
		check(c.Table != "", "TABLE: is missing: the DynamoDB table of the limits")
	case "redis":
		c.checkRedis(check)
	case "memory":
	default:
		check(false, "STORE: got %q, want dynamodb, redis or memory", c.Store)
	}
	check(c.RulesVersion >= 0 && c.RulesVersion <= limiter.MaxVersion, "RULES_VERSION: got %d, want 1 to %d, such as Unix seconds", c.RulesVersion, int64(limiter.MaxVersion))
	if _, err := c.appConfig(); err != nil {
		check(false, "RULES_FROM: %w", err)
	}
	check(c.RulesFrom != contract.RulesTable || c.RecordsTable != "", "RECORDS_TABLE: is missing: RULES_FROM=%s is for the rules in it", contract.RulesTable)
	check(c.AppConfigPort > 0 && c.AppConfigPort < 1<<16, "AWS_APPCONFIG_EXTENSION_HTTP_PORT: got %d, want 1 to 65535", c.AppConfigPort)
	check(c.BasePath == "" || validBasePath.MatchString(c.BasePath) && rules.DecodedPath(c.BasePath, "").String() == c.BasePath, "BASE_PATH: got %q, want a path such as /v1", c.BasePath)
	check(c.Timeout >= 0 && c.Timeout < limiter.MinWindow, "STORE_TIMEOUT: got %s, want more than 0s and less than %s, or 0s for %s with redis and %s with dynamodb", c.Timeout, limiter.MinWindow, redisTimeout, dynamoDBTimeout)
	for _, origin := range c.CORSOrigins {
		check(validOrigin.MatchString(origin) || origin == "*" && len(c.CORSOrigins) == 1,
			"CORS_ORIGINS: got %q, want origins such as https://app.example.com or http://localhost:3000, without a path, or * alone", origin)
	}
	check(c.IPv6Bits >= 1 && c.IPv6Bits <= 128, "IPV6_BITS: got %d, want 1 to 128", c.IPv6Bits)
	check(c.JWKS == "" || c.JWTIssuer != "", "JWT_ISSUER: is missing: without it any issuer that shares a key is believed")
	check(c.JWKS == "" || c.JWTAudience != "", "JWT_AUDIENCE: is missing: without it tokens for other APIs are believed")
	check(c.JWKS == "" || c.Local || c.JWKS == contract.JWKSRecords || isURL(c.JWKS), "JWKS: got the file %q, want a URL: key files are for local use, with WEIR_LOCAL=true", c.JWKS)
	check(c.JWKS != contract.JWKSRecords || c.RecordsTable != "", "RECORDS_TABLE: is missing: JWKS=%s is for the keys in it", contract.JWKSRecords)
	check(c.RecordsTable == "" || validTable.MatchString(c.RecordsTable), "RECORDS_TABLE: got %q, want the name of a DynamoDB table: 3 to 255 letters, digits, _, . and -", c.RecordsTable)
	check(c.RecordsTable == "" || c.APIKeysFile == "", "RECORDS_TABLE and API_KEYS_FILE: want one of them: API keys come from one place")
	check(c.APIKeysFile == "" || c.Local, "API_KEYS_FILE: got %q, want none: key files are for local use, with WEIR_LOCAL=true", c.APIKeysFile)
	check((c.APIKeysFile == "") == (c.APIKeySecretFile == ""), "API_KEYS_FILE and API_KEY_SECRET_FILE: want both or none")
	check(c.SubjectKeyFile == "" || c.Local, "SUBJECT_KEY_FILE: got %q, want none: key files are for local use, with WEIR_LOCAL=true", c.SubjectKeyFile)
	check(c.MaxDelay >= 0 && c.MaxDelay <= maxMaxDelay, "MAX_DELAY: got %s, want 0s to %s", c.MaxDelay, maxMaxDelay)
	check(c.SampleLogin == "" || strings.Contains(c.SampleLogin, ":"), "SAMPLE_LOGIN: no colon, want user:password")
	c.checkEvents(check)
	return errors.Join(problems...)
}

// appConfig returns the configuration in RULES_FROM, nil if it names none.
func (c *Config) appConfig() (*contract.Configuration, error) {
	name, ok := strings.CutPrefix(c.RulesFrom, contract.RulesAppConfig)
	if !ok && c.RulesFrom != "" && c.RulesFrom != contract.RulesTable {
		return nil, fmt.Errorf("got %.80q, want %s, or %sAPPLICATION/ENVIRONMENT/PROFILE", c.RulesFrom, contract.RulesTable, contract.RulesAppConfig)
	} else if !ok {
		return nil, nil
	}
	configuration, err := contract.ParseConfiguration(name)
	return &configuration, err
}

// maxMaxDelay is how long API Gateway waits for a function.
const maxMaxDelay = 29 * time.Second

func isURL(s string) bool { return strings.Contains(s, "://") }

// lookuper is a lookup function as envconfig wants it. An empty variable is one that
// is not set: templates declare variables that a local run fills in.
type lookuper func(string) (string, bool)

// Lookup implements envconfig.Lookuper.
func (l lookuper) Lookup(key string) (string, bool) {
	value, ok := l(key)
	return value, ok && value != ""
}
