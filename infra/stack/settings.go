package stack

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
)

// Settings are the settings of a deployment, from -c key=value of the CDK and from
// infra/stages.json. [Read] reads them. infra/README.md documents each.
type Settings struct {
	// LimitsProps are the settings of the limits. [New] sets Architecture, Records, Vpc, Kafka and AlarmAction. The
	// paths of Rules and Bundles are relative to the repository, unless [Settings.In] changes them.
	ratelimit.LimitsProps

	Arch         string // arm64 or x86_64
	AlarmEmail   string // address that gets alarms; "" for none
	RecordsTable string // name of an earlier deployment's records table
	Region       string // region of the deployment, if it is known; "" otherwise

	Throttle float64 // requests per second that each API's stage accepts; default 600
	WAF      float64 // requests in five minutes above which WAF blocks an address; 0: no WAF
	LogRole  bool    // create the account's role for API Gateway's logs, which replaces the one that the account has
	Kafka    Kafka
	Cognito  *ratelimit.Tokens // with Identity host, the user pool whose tokens the APIs verify
	Warning  string            // a setting that is probably a mistake; "" for none
}

// Kafka is a topic of an Amazon MSK cluster and the cluster's VPC.
type Kafka struct {
	Brokers, Topic, Cluster, SecurityGroup string // see ratelimit.Kafka
	Vpc                                    string
	Subnets                                []string // subnets in two or three zones
}

// Read returns the settings of a CDK app. The function context returns the value of a key of the CDK's
// context. given lists the keys of that context. For a key without a value there, Read uses the stage's
// object in document, for example {"prod": {"throttle": "600"}}. The error lists all mistakes, including
// unknown keys that the CDK did not set itself.
func Read(document []byte, given []string, context func(key string) string) (Settings, error) {
	var stages map[string]map[string]string
	if err := json.Unmarshal(document, &stages); err != nil {
		return Settings{}, fmt.Errorf("stages: %w; want {\"prod\": {\"store\": \"elasticache\"}}, each setting in quotes", err)
	}
	r := reader{context: context, stage: stages[cmp.Or(context("stage"), "dev")], known: map[string]bool{"stage": true}}
	s := r.settings()
	for _, key := range given {
		if instead := removed[key]; instead != "" {
			r.refuse(key, context(key), "nothing; it is no longer a setting; "+instead)
		} else if !r.known[key] && !ofCDK(key) {
			r.refuse(key, context(key), "a setting: "+strings.Join(slices.Sorted(maps.Keys(r.known)), ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.stage)) {
		switch {
		case key == "arch" || key == "bundles": // make builds the functions before the app reads the file, so the file cannot set them
			r.problems = append(r.problems, fmt.Errorf("stages: %s.%s: not a setting of a stage; run make deploy ARCH=%s", s.Namespace, key, s.Arch))
		case removed[key] != "":
			r.problems = append(r.problems, fmt.Errorf("stages: %s.%s: no longer a setting; %s", s.Namespace, key, removed[key]))
		case !r.known[key] || key == "stage":
			r.problems = append(r.problems, fmt.Errorf("stages: %s.%s: not a setting of a stage; want one of %s", s.Namespace, key,
				strings.Join(slices.Sorted(maps.Keys(r.known)), ", ")))
		}
	}
	if r.stage == nil && context("stage") != "" {
		s.Warning = fmt.Sprintf("stages: no settings of stage %s, so the stack has the defaults; want one of %s, or your own stage", s.Namespace,
			strings.Join(slices.Sorted(maps.Keys(stages)), ", "))
	}
	return s, errors.Join(r.problems...)
}

// removed are settings of earlier versions, with what to do instead.
var removed = map[string]string{
	"directRequests": "a request without the secret counts by its source address",
	"viewerAddress":  "set address to host, cloudfront or hops:N, and the parameter OriginSecret",
	"events":         "a decision is a log line; set decisionSample and kafkaBrokers, or subscribe a stream to the logs",
	"eventsSample":   "set decisionSample",
	"noticeBus":      "subscribe your function to the notices in the logs: see infra/OPERATIONS.md",
	"appConfigLayer": "set rulesFrom to table, and publish the rules with `weir rules publish`",
}

// ofCDK reports whether the CDK sets a key of the context itself: flags such as @aws-cdk/core:…, results of
// look-ups such as availability-zones:account=…, and the settings of its command.
func ofCDK(key string) bool {
	return strings.ContainsAny(key, "@:") || key == "acknowledged-issue-numbers" || key == "cli-telemetry"
}

func (r *reader) settings() Settings {
	s := Settings{
		LimitsProps: ratelimit.LimitsProps{
			Namespace: r.text("stage", "dev"), Store: ratelimit.Store(r.oneOf("store", string(ratelimit.DynamoDB), string(ratelimit.ElastiCache))),
			Rules: r.text("rules", "functions/rules.json"), RulesFrom: r.text("rulesFrom", ""), WeirBehind: true,
			CORSOrigins: r.list("corsOrigins"), RequireCredential: r.flag("requireCredential"), MaxDelay: r.duration("maxDelay"),
			Variables:              map[string]string{},
			ProvisionedConcurrency: r.number("provisioned", 0), Tracing: r.flag("tracing"),
			Regions: r.list("regions"), Zones: r.list("zones"), WarmWrites: r.number("warmWrites", 0),
			DecisionSample: int(r.number("decisionSample", 0)),
			Identity:       r.oneOf("identity", contract.IdentityWeir, contract.IdentityHost, contract.IdentityHostKeys), Claims: r.list("claims"),
			UserClaim: r.text("userClaim", ""), TierClaim: r.text("tierClaim", ""),
		},
		Arch: r.oneOf("arch", "arm64", "x86_64"), AlarmEmail: r.text("alarmEmail", ""), RecordsTable: r.text("recordsTable", ""),
		LogRole:  r.flag("logRole"),
		Throttle: r.number("throttle", defaultThrottle), WAF: r.number("waf", 0),
		Kafka: Kafka{
			Brokers: r.text("kafkaBrokers", ""), Topic: r.text("kafkaTopic", ""), Cluster: r.text("kafkaCluster", ""),
			SecurityGroup: r.text("kafkaSecurityGroup", ""), Vpc: r.text("kafkaVpc", ""), Subnets: r.list("kafkaSubnets"),
		},
	}
	s.Address = r.text("address", "")
	s.Bundles = r.text("bundles", "dist/"+s.Arch)
	if tokens := (ratelimit.Tokens{Issuer: r.text("issuer", ""), Audience: r.text("audience", ""),
		JWKS: r.text("jwks", "")}); tokens != (ratelimit.Tokens{}) {
		s.Tokens = &tokens
	}
	if s.Identity == contract.IdentityWeir {
		s.Identity = ""
	} else {
		r.checkHost(&s)
	}
	for key, variable := range map[string]string{"basePath": contract.VariableBasePath, "apiKeyHeader": contract.VariableAPIKeyHeader,
		"foreignApiKeys": contract.VariableForeignAPIKeys} {
		if value := r.text(key, ""); value != "" {
			s.Variables[variable] = value
		}
	}
	if r.text("reserved", "") != "" {
		n := r.number("reserved", 0)
		s.ReservedConcurrency = &n
	}
	if !validStage.MatchString(s.Namespace) {
		r.refuse("stage", s.Namespace, "lower-case letters, digits and single hyphens, starting with a letter")
	}
	if s.Regions != nil && (s.Kafka.Vpc != "" || s.Zones != nil) {
		r.refuse("regions", r.lookup("regions"), "nothing with zones or kafkaVpc, which are in one region")
	}
	r.checkKafka(&s)
	if s.AlarmEmail != "" && !strings.Contains(s.AlarmEmail, "@") {
		r.refuse("alarmEmail", s.AlarmEmail, "an address")
	}
	if s.Throttle < 1 {
		r.refuse("throttle", r.lookup("throttle"), "1 or more")
	}
	if s.WAF != 0 && s.WAF < minWAF {
		r.refuse("waf", r.lookup("waf"), "0, or at least 10, the minimum of WAF")
	}
	return s
}

// userPool matches the issuer of a Cognito user pool.
var userPool = regexp.MustCompile(`^https://cognito-idp\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/([A-Za-z0-9-]+_[A-Za-z0-9]+)$`)

// checkHost moves the issuer to Cognito: the authorizers of the APIs verify its tokens.
func (r *reader) checkHost(s *Settings) {
	if s.Tokens == nil || s.Tokens.Audience == "" || s.Tokens.JWKS != "" || !userPool.MatchString(s.Tokens.Issuer) {
		r.refuse("identity", s.Identity, "also issuer, https://cognito-idp.REGION.amazonaws.com/POOL of a Cognito user pool, and audience, its "+
			"app clients, but not jwks; with another authorizer, use the construct (infra/ATTACH.md)")
		return
	}
	s.Cognito, s.Tokens = s.Tokens, nil
}

func (r *reader) checkKafka(s *Settings) {
	k := &s.Kafka
	settings := map[string]string{
		"kafkaBrokers": k.Brokers, "kafkaTopic": k.Topic, "kafkaCluster": k.Cluster,
		"kafkaSecurityGroup": k.SecurityGroup, "kafkaVpc": k.Vpc, "kafkaSubnets": strings.Join(k.Subnets, ","),
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if settings[key] == "" {
			missing = append(missing, key)
		}
	}
	switch len(missing) {
	case len(settings):
		return
	case 0:
	default:
		r.refuse("kafkaBrokers", k.Brokers, "also "+strings.Join(missing, ", "))
	}
	if n := len(k.Subnets); n != 0 && (n < 2 || n > 3) {
		r.refuse("kafkaSubnets", r.lookup("kafkaSubnets"), "two or three subnets in different zones, separated by commas")
	}
	if s.Zones != nil {
		r.refuse("zones", r.lookup("zones"), "nothing with kafkaBrokers; kafkaSubnets determines the zones")
	}
}

const minWAF = 10

// With these defaults, all APIs together write no more than a new counter table accepts.
// infra/README.md has the formula.
const (
	apis = 2 // the REST and the HTTP API
	// The most expensive request under the repository's rules charges its caller and all callers.
	requestWrites   = 2
	defaultThrottle = 600
)

var validStage = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Each returns the settings of the stack of each region, in the order in which the regions are deployed. Without Regions, it
// returns s alone.
func (s Settings) Each() (all []Settings) {
	for _, region := range contract.RegionNames(s.Regions) {
		s.Region = region
		all = append(all, s)
	}
	if all == nil {
		return []Settings{s}
	}
	return all
}

// In makes relative paths in s relative to folder.
func (s *Settings) In(folder string) {
	for _, path := range []*string{&s.Rules, &s.Bundles} {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
}

type reader struct {
	context  func(string) string
	stage    map[string]string
	known    map[string]bool // keys that lookup was asked for
	problems []error
}

func (r *reader) lookup(key string) string {
	r.known[key] = true
	return cmp.Or(r.context(key), r.stage[key])
}

func (r *reader) text(key, otherwise string) string {
	if v := r.lookup(key); v != "" {
		return v
	}
	return otherwise
}

func (r *reader) refuse(key, got, want string) {
	r.problems = append(r.problems, fmt.Errorf("-c %s=%s: want %s", key, got, want))
}

func (r *reader) oneOf(key string, values ...string) string {
	got := r.text(key, values[0])
	if slices.Contains(values, got) {
		return got
	}
	r.refuse(key, got, strings.Join(values, " or "))
	return values[0]
}

func (r *reader) list(key string) []string {
	if v := r.lookup(key); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func (r *reader) number(key string, otherwise float64) float64 {
	v := r.lookup(key)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		r.refuse(key, v, "a whole number")
		return otherwise
	}
	return float64(n)
}

func (r *reader) flag(key string) bool {
	v := r.oneOf(key, "false", "true")
	return v == "true"
}

func (r *reader) duration(key string) time.Duration {
	v := r.lookup(key)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		r.refuse(key, v, "a time such as 2s")
	}
	return d
}
