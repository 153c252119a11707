package stack

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/infra/ratelimit"
)

// Settings are what a deployment can be told: the context values of the CDK, -c key=value.
type Settings struct {
	Stage       string // dev; separates stages in one account
	Store       ratelimit.Store
	Rules       string   // the rules document; its path is from the repository's root
	Arch        string   // arm64 or x86_64
	Bundles     string   // where the functions were built; dist/<arch>
	AlarmEmail  string   // who is told of alarms; nobody
	Issuer      string   // whose tokens are believed; with Audience and JWKS
	Audience    string   // for whom they must be
	JWKS        string   // where the issuer's keys are
	CORSOrigins []string // whose pages may call

	Throttle     float64  // requests a second that the stage of each API takes; 2000
	WAF          float64  // requests of one address in five minutes, from which on WAF blocks it; 0: no WAF
	Reserved     *float64 // see ratelimit.Props.ReservedConcurrency
	Provisioned  float64  // see ratelimit.Props.ProvisionedConcurrency
	Tracing      bool     // X-Ray
	RequireLogin bool     // turn anonymous callers away
	MaxDelay     time.Duration
	KeepLogRole  bool  // the account has the role of API Gateway for logs already
	RulesVersion int64 // counts where the document has no version
}

// Read returns the settings that lookup has, such as the context of a CDK app; "" is what
// is not there. The error names every one that is wrong.
func Read(lookup func(key string) string) (Settings, error) {
	r := reader{lookup: lookup}
	s := Settings{
		Stage: r.text("stage", "dev"), Store: ratelimit.Store(r.text("store", string(ratelimit.DynamoDB))),
		Rules: r.text("rules", "functions/rules.json"), Arch: r.oneOf("arch", "arm64", "x86_64"),
		AlarmEmail: r.text("alarmEmail", ""), Issuer: r.text("issuer", ""), Audience: r.text("audience", ""), JWKS: r.text("jwks", ""),
		CORSOrigins: r.list("corsOrigins"), Throttle: r.number("throttle", 2000), WAF: r.number("waf", 0),
		Provisioned: r.number("provisioned", 0), Tracing: r.flag("tracing"), RequireLogin: r.flag("requireCredential"),
		MaxDelay: r.duration("maxDelay"), KeepLogRole: r.flag("keepLogRole"),
	}
	s.Bundles = r.text("bundles", "dist/"+s.Arch)
	if r.text("reserved", "") != "" {
		n := r.number("reserved", 0)
		s.Reserved = &n
	}
	return s, errors.Join(r.problems...)
}

// In makes the paths of s, which are relative to folder, work from where the program is.
func (s *Settings) In(folder string) {
	for _, path := range []*string{&s.Rules, &s.Bundles} {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(folder, *path)
		}
	}
}

type reader struct {
	lookup   func(string) string
	problems []error
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
