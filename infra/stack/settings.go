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
	// LimitsProps are the settings of the limits. [New] sets AlarmAction. The
	// paths of Rules and Bundles are relative to the repository, unless [Settings.In] changes them.
	ratelimit.LimitsProps

	AlarmEmail string // address that gets alarms; "" for none
	Region     string // region of the deployment, if it is known; "" otherwise
	// Deployed is what Regions was in the last deployment, or the one region of a stack without Regions. [Read] refuses Regions that
	// do not follow it. ["none"] means that there was no deployment, and nil that it is unknown.
	Deployed []string

	Throttle float64 // requests per second that each API's stage accepts; default 600
	WAF      float64 // requests in five minutes above which WAF blocks an address; 0: no WAF
	LogRole  bool    // create the account's role for API Gateway's logs, which replaces the one that the account has
	Warning  string  // a setting that is probably a mistake; "" for none
}

// Read returns the settings of a CDK app from the CDK's context, and for keys without a value there from the stage's object in
// document, for example {"prod": {"throttle": "600"}}. The error lists all mistakes, including unknown keys that the CDK did not set
// itself.
func Read(document []byte, context map[string]string) (Settings, error) {
	var stages map[string]map[string]string
	if err := json.Unmarshal(document, &stages); err != nil {
		return Settings{}, fmt.Errorf("stages: %w; want {\"prod\": {\"store\": \"elasticache\"}}, each setting in quotes", err)
	}
	s := Settings{LimitsProps: ratelimit.LimitsProps{Namespace: "dev", Rules: "functions/rules.json", WeirBehind: true,
		Variables: map[string]string{}, Architecture: "arm64"}, Throttle: defaultThrottle}
	known, stage := s.known(), stages[cmp.Or(context["stage"], s.Namespace)]
	var problems []error
	refuse := func(key, got, want string) {
		place := "-c"
		if context[key] == "" && stage[key] != "" {
			place = "stages:"
		}
		problems = append(problems, fmt.Errorf("%s %s=%s: want %s", place, key, got, want))
	}
	values := maps.Clone(stage)
	if values == nil {
		values = map[string]string{}
	}
	for _, key := range []string{"stage", "arch", "bundles"} { // make builds the functions before the app reads the file
		if values[key] != "" {
			problems = append(problems, fmt.Errorf("stages: %s: not a setting of a stage; run make with CONTEXT=stage= or ARCH=", key))
		}
	}
	maps.Copy(values, context)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := cmp.Or(context[key], stage[key])
		switch {
		case removed[key] != "":
			refuse(key, value, "nothing; it is no longer a setting; "+removed[key])
		case known[key].set == nil && !ofCDK(key):
			refuse(key, value, "a setting: "+strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		case known[key].set != nil && value != "" && !known[key].set(value):
			refuse(key, value, known[key].want)
		}
	}
	s.complete(refuse)
	if stage == nil && context["stage"] != "" {
		s.Warning = fmt.Sprintf("stages: no settings of stage %s, so the stack has the defaults; want one of %s, or your own stage", s.Namespace,
			strings.Join(slices.Sorted(maps.Keys(stages)), ", "))
	}
	return s, errors.Join(problems...)
}

// removed are settings of earlier versions, with what to do instead.
var removed = map[string]string{
	"directRequests": "a request without the secret counts by its source address",
	"viewerAddress":  "set address to host, cloudfront or hops:N, and the parameter OriginSecret",
	"cloudfront":     "set waf, and put the stack infra/edge in front: see infra/edge/README.md",
	"events":         "a decision is a log line; set decisionSample and kafkaBrokers, or subscribe a stream to the logs",
	"eventsSample":   "set decisionSample",
	"identity":       "Weir verifies the tokens of issuer, also those of Cognito; for an authorizer that your API has, see infra/ATTACH.md",
	"provisioned":    "an environment starts when it is needed",
	"settle":         "Weir's handler and layer decide limits with a count; another back end reports: see functions/SETTLE.md",
	"tracing":        "the metrics and the dashboard have the latencies",
	"noticeBus":      "subscribe your function to the notices in the logs: see infra/OPERATIONS.md",
	"warmWrites":     "raise the warm throughput with the AWS CLI: see Throughput of the table in infra/README.md",
	"appConfigLayer": "set rulesFrom to table, and publish the rules with `weir rules publish`",
}

// ofCDK reports whether the CDK sets a key of the context itself: flags such as @aws-cdk/core:…, results of
// look-ups such as availability-zones:account=…, and the settings of its command.
func ofCDK(key string) bool {
	return strings.ContainsAny(key, "@:") || key == "acknowledged-issue-numbers" || key == "cli-telemetry"
}

// setting is a key of the context: set takes its value, and reports whether that is what it wants.
type setting struct {
	want string
	set  func(value string) bool
}

// known returns all settings, which write into s.
func (s *Settings) known() map[string]setting {
	var tokens ratelimit.Tokens
	var kafka ratelimit.Kafka
	var reserved float64
	all := map[string]setting{
		"stage": {"lower-case letters, digits and single hyphens, starting with a letter", func(value string) (ok bool) {
			s.Namespace = value
			return validStage.MatchString(value)
		}},
		"arch": oneOf(&s.Architecture, "arm64", "x86_64"), "store": oneOf(&s.Store, ratelimit.DynamoDB, ratelimit.ElastiCache),
		"throttle": number(&s.Throttle, 1), "waf": number(&s.WAF, 0),
		"logRole":        oneOf(new(string), "false", "true").then(func(value string) { s.LogRole = value == "true" }),
		"reserved":       number(&reserved, 0).then(func(string) { s.ReservedConcurrency = &reserved }),
		"maxDelay":       parsed(&s.MaxDelay, "a time such as 2s", time.ParseDuration),
		"decisionSample": parsed(&s.DecisionSample, "a whole number", strconv.Atoi),
	}
	for key, to := range map[string]*string{"rules": &s.Rules, "rulesFrom": &s.RulesFrom, "alarmEmail": &s.AlarmEmail,
		"bundles": &s.Bundles, "address": &s.Address, "userClaim": &s.UserClaim, "tierClaim": &s.TierClaim, "recordsTable": &s.Records} {
		all[key] = setting{}.then(func(value string) { *to = value })
	}
	for key, to := range map[string]*string{"issuer": &tokens.Issuer, "audience": &tokens.Audience, "jwks": &tokens.JWKS} {
		all[key] = setting{}.then(func(value string) { *to, s.Tokens = value, &tokens })
	}
	for key, to := range map[string]*string{"kafkaBrokers": &kafka.Brokers, "kafkaTopic": &kafka.Topic, "kafkaCluster": &kafka.Cluster,
		"kafkaSecurityGroup": &kafka.SecurityGroup, "kafkaVpc": &kafka.Vpc} {
		all[key] = setting{}.then(func(value string) { *to, s.Kafka = value, &kafka })
	}
	all["requireCredential"] = oneOf(new(string), "false", "true")
	for key, variable := range map[string]string{"basePath": contract.VariableBasePath, "apiKeyHeader": contract.VariableAPIKeyHeader,
		"foreignApiKeys": contract.VariableForeignAPIKeys, "requireCredential": contract.VariableRequireCredential} {
		all[key] = all[key].then(func(value string) { s.Variables[variable] = value })
	}
	for key, to := range map[string]*[]string{"corsOrigins": &s.CORSOrigins, "regions": &s.Regions, "deployed": &s.Deployed, "zones": &s.Zones,
		"claims": &s.Claims, "kafkaSubnets": &kafka.Subnets} {
		all[key] = setting{}.then(func(value string) { *to = strings.Split(value, ",") })
	}
	return all
}

// complete sets what depends on several settings, and refuses those that exclude or need each other.
func (s *Settings) complete(refuse func(key, got, want string)) {
	s.Bundles = cmp.Or(s.Bundles, "dist/"+s.Architecture)
	if s.Regions != nil && (s.Kafka != nil || s.Zones != nil) {
		refuse("regions", strings.Join(s.Regions, ","), "nothing with zones or kafkaVpc, which are in one region")
	}
	if s.WAF != 0 && s.WAF < minWAF {
		refuse("waf", fmt.Sprint(s.WAF), "0, or at least 10, the minimum of WAF")
	}
	if s.Deployed != nil && s.Deployed[0] != NotDeployed && !slices.Equal(s.Deployed, s.Regions) {
		if want := s.follows(); want != "" {
			refuse("regions", strings.Join(s.Regions, ","), want)
		}
	}
}

const minWAF = 10

// With defaultThrottle, both APIs together write no more than a new counter table accepts. infra/README.md has the formula.
const defaultThrottle = 600

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

// then returns a setting that also calls next with a value that it wants.
func (s setting) then(next func(value string)) setting {
	return setting{s.want, func(value string) (ok bool) {
		if s.set != nil && !s.set(value) {
			return false
		}
		next(value)
		return true
	}}
}

func parsed[T any](to *T, want string, parse func(string) (T, error)) setting {
	return setting{want, func(value string) (ok bool) {
		v, err := parse(value)
		*to = v
		return err == nil
	}}
}

func oneOf[T ~string](to *T, values ...T) setting {
	var want []string
	for _, value := range values {
		want = append(want, string(value))
	}
	return setting{strings.Join(want, " or "), func(value string) (ok bool) {
		*to = T(value)
		return slices.Contains(values, *to)
	}}
}

// number returns a setting whose value is a whole number of at least least.
func number(to *float64, least float64) setting {
	return setting{fmt.Sprintf("a whole number of at least %v", least), func(value string) (ok bool) {
		n, err := strconv.ParseUint(value, 10, 31)
		*to = float64(n)
		return err == nil && *to >= least
	}}
}
