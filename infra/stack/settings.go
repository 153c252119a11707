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

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Settings are what a deployment can be told: the context values of the CDK, -c key=value.
type Settings struct {
	Stage          string // dev; separates stages in one account
	Store          ratelimit.Store
	RulesFrom      string   // see ratelimit.LimitsProps.RulesFrom
	AppConfigLayer string   // see ratelimit.LimitsProps.AppConfigLayer
	Rules          string   // the rules document; its path is from the repository's root
	Arch           string   // arm64 or x86_64
	Bundles        string   // where the functions were built; dist/<arch>
	AlarmEmail     string   // who is told of alarms; nobody
	Issuer         string   // whose tokens are believed; with Audience and JWKS
	Audience       string   // for whom they must be
	JWKS           string   // where the issuer's keys are
	CORSOrigins    []string // whose pages may call

	Zones      []string // see ratelimit.LimitsProps.Zones
	WarmWrites float64  // see ratelimit.LimitsProps.WarmWrites

	Throttle     float64  // requests a second that the stage of each API takes; 600
	WAF          float64  // requests of one address in five minutes, from which on WAF blocks it; 0: no WAF
	Reserved     *float64 // see ratelimit.LimitsProps.ReservedConcurrency
	Provisioned  float64  // see ratelimit.LimitsProps.ProvisionedConcurrency
	RecordsTable string   // the table of API keys of a deployment that was there before
	Tracing      bool     // X-Ray
	RequireLogin bool     // turn anonymous callers away
	MaxDelay     time.Duration
	KeepLogRole  bool    // the account has the role of API Gateway for logs already
	Events       string  // what takes events of decisions: kinesis, whose stream the stack makes, or kafka; nobody
	Sample       float64 // plain allowed requests that one event stands for; 100
	Kafka        Kafka
	RulesVersion int64 // counts where the document has no version
}

// Kafka is a topic of an Amazon MSK cluster, and where the functions find it.
type Kafka struct {
	Brokers, Topic, Cluster, SecurityGroup string // as in ratelimit.Kafka
	Vpc                                    string
	Subnets                                []string // of the VPC, one in each of two or three zones
}

// Read returns the settings that context has, the context of a CDK app in which "" is what is
// not there, and below it those of the stage in document: an object by stage of an object by
// setting. The error names every one that is wrong.
//
// given are the keys of the context that somebody has set: one that is no setting is an error.
func Read(document []byte, given []string, context func(key string) string) (Settings, error) {
	var stages map[string]map[string]string
	if err := json.Unmarshal(document, &stages); err != nil {
		return Settings{}, fmt.Errorf("stages: %w: want {\"prod\": {\"store\": \"elasticache\"}}, each setting in quotes", err)
	}
	r := reader{context: context, stage: stages[cmp.Or(context("stage"), "dev")], known: map[string]bool{"stage": true}}
	s := r.settings()
	for _, key := range given {
		if !r.known[key] {
			r.refuse(key, context(key), "a setting that there is, one of "+strings.Join(slices.Sorted(maps.Keys(r.known)), ", "))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.stage)) {
		switch {
		case key == "arch" || key == "bundles": // what is built is said to make
			r.problems = append(r.problems, fmt.Errorf("stages: %s.%s: is not a setting of a stage: make deploy ARCH=%s", s.Stage, key, s.Arch))
		case !r.known[key] || key == "stage":
			r.problems = append(r.problems, fmt.Errorf("stages: %s.%s: is not a setting of a stage, want one of %s", s.Stage, key, strings.Join(slices.Sorted(maps.Keys(r.known)), ", ")))
		}
	}
	return s, errors.Join(r.problems...)
}

func (r *reader) settings() Settings {
	s := Settings{
		Stage: r.text("stage", "dev"), Store: ratelimit.Store(r.text("store", string(ratelimit.DynamoDB))),
		Rules: r.text("rules", "functions/rules.json"), Arch: r.oneOf("arch", "arm64", "x86_64"),
		RulesFrom: r.text("rulesFrom", ""), AppConfigLayer: r.text("appConfigLayer", ""),
		AlarmEmail: r.text("alarmEmail", ""), Issuer: r.text("issuer", ""), Audience: r.text("audience", ""), JWKS: r.text("jwks", ""),
		CORSOrigins: r.list("corsOrigins"), Throttle: r.number("throttle", defaultThrottle), WAF: r.number("waf", 0),
		Provisioned: r.number("provisioned", 0), Tracing: r.flag("tracing"), RequireLogin: r.flag("requireCredential"),
		Events: r.text("events", ""), Sample: r.number("eventsSample", 0),
		Kafka: Kafka{
			Brokers: r.text("kafkaBrokers", ""), Topic: r.text("kafkaTopic", ""), Cluster: r.text("kafkaCluster", ""),
			SecurityGroup: r.text("kafkaSecurityGroup", ""), Vpc: r.text("kafkaVpc", ""), Subnets: r.list("kafkaSubnets"),
		},
		Zones: r.list("zones"), WarmWrites: r.number("warmWrites", 0),
		RecordsTable: r.text("recordsTable", ""), MaxDelay: r.duration("maxDelay"), KeepLogRole: r.flag("keepLogRole"),
	}
	s.Bundles = r.text("bundles", "dist/"+s.Arch)
	if r.text("reserved", "") != "" {
		n := r.number("reserved", 0)
		s.Reserved = &n
	}
	if !validStage.MatchString(s.Stage) {
		r.refuse("stage", s.Stage, "small letters, digits and single hyphens between them, from a letter on")
	}
	r.checkEvents(&s)
	if s.AlarmEmail != "" && !strings.Contains(s.AlarmEmail, "@") {
		r.refuse("alarmEmail", s.AlarmEmail, "an address")
	}
	if s.Throttle < 1 {
		r.refuse("throttle", r.lookup("throttle"), "1 or more")
	}
	if s.WAF != 0 && s.WAF < minWAF {
		r.refuse("waf", r.lookup("waf"), "0, or 10 and more, which is the least that WAF counts to")
	}
	return s
}

// checkEvents says what is wrong with the settings of events.
func (r *reader) checkEvents(s *Settings) {
	k := &s.Kafka
	settings := map[string]string{
		"kafkaBrokers": k.Brokers, "kafkaTopic": k.Topic, "kafkaCluster": k.Cluster,
		"kafkaSecurityGroup": k.SecurityGroup, "kafkaVpc": k.Vpc, "kafkaSubnets": strings.Join(k.Subnets, ","),
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		switch value := settings[key]; {
		case s.Events == "kafka" && value == "":
			missing = append(missing, key)
		case s.Events != "kafka" && value != "":
			r.refuse(key, value, "nothing without events=kafka")
		}
	}
	if len(missing) > 0 {
		r.refuse("events", s.Events, "also "+strings.Join(missing, ", "))
	}
	if n := len(k.Subnets); s.Events == "kafka" && n != 0 && (n < 2 || n > 3) {
		r.refuse("kafkaSubnets", r.lookup("kafkaSubnets"), "two or three subnets, each in a zone of its own, with commas between them")
	}
	if s.Events == "kafka" && s.Zones != nil {
		r.refuse("zones", r.lookup("zones"), "nothing with events=kafka, whose kafkaSubnets are in zones already")
	}
	if s.Events != "" && s.Events != "kafka" && s.Events != "kinesis" {
		r.refuse("events", s.Events, "kinesis or kafka, or nothing for no events")
	}
}

const minWAF = 10

// The throttle of each API fits a new table of counters: all APIs together write no more than the
// table takes at once. infra/README.md has the formula.
const (
	apis            = 2 // the REST and the HTTP API
	requestWrites   = 3 // of the dearest request by the rules of this repository: user, address, all callers
	defaultThrottle = 600
)

var validStage = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// In makes the paths of s, which are relative to folder, work from where the program is.
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
	known    map[string]bool // what was asked for
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
