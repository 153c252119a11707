package serve

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/checkout"
	"github.com/weir-limits/weir/local/command"
)

func (s *Server) greet() {
	where, _, _ := strings.Cut(s.Store, ":")
	if address := s.variables[addresses[s.Store]]; address != "" {
		where += " at " + boot.Redacted(address)
	}
	inForce := s.live.Current()
	fmt.Fprintf(s.Out, "rules  %s (%s, %s)\nstate  in %s\nlog    metrics and notices in %s\nkeys   in %s\n", s.Rules, count(inForce.Len()),
		command.RulesVersion(inForce.Version()), where, s.checkout.MetricsFile(), s.checkout.Path(".weir"))
	urls := s.urls(2)
	for i, api := range s.apis {
		fmt.Fprintf(s.Out, "%s   %s\n", api.Kind, urls[i])
	}
	if s.Upstream.url != nil {
		fmt.Fprintf(s.Out, "to     %s\n", &s.Upstream)
	}
	s.greetRegions(inForce, len(s.apis))
	if s.Console != nil {
		fmt.Fprintf(s.Out, "page   %s%s\n", urls[0], SitePath)
	}
	s.greetKeys(inForce)
	s.warn(inForce)
	if os.Getenv("RECORDS_TABLE") != "" {
		fmt.Fprintln(s.Out, "warning: RECORDS_TABLE has no effect: the API keys are in", s.checkout.APIKeysFile())
	}
	s.suggest(urls)
}

// suggest prints requests to try.
func (s *Server) suggest(urls []string) {
	fmt.Fprint(s.Out, "\nTry:\n")
	if s.Port != DefaultPort {
		fmt.Fprintf(s.Out, "  export WEIR_URL=%s\n", urls[0])
	}
	path, weir := s.limitedPath(), cmp.Or(s.Command, self())
	fmt.Fprintf(s.Out, "  curl -i %s%s\n", urls[0], path)
	if s.variables["JWKS"] == s.checkout.PublicKeysFile() { // not of another issuer
		fmt.Fprintf(s.Out, "  curl -i -H \"Authorization: Bearer $(%s token --user alice --tier paid)\" %s%s\n", weir, urls[0], path)
	}
	fmt.Fprintf(s.Out, "  curl -i -H \"x-api-key: %s\" %s%s\n  %s keys list --local\n\n", s.apiKeys["paid"], urls[0], path, weir)
}

// limitedPath returns a path whose GET requests have limits.
func (s *Server) limitedPath() string {
	for _, e := range endpointsOf(s.live.Current()) {
		if path, ok := e.sample(s.apis[0].Routes); ok {
			return path
		}
	}
	return "/"
}

// urls returns the addresses of the first n APIs, which have consecutive ports.
func (s *Server) urls(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("http://127.0.0.1:%d", s.Port+i))
	}
	return list
}

func count(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}

// greetKeys prints the sample API keys. The tiers of some can be unknown to the rules.
func (s *Server) greetKeys(inForce *rules.Rules) {
	for _, tier := range checkout.SampleTiers {
		if key := s.apiKeys[tier]; key != "" && inForce.CheckTier(tier) == nil {
			fmt.Fprintf(s.Out, "API key of tier %-10s x-api-key: %s\n", tier, key)
		} else if key != "" {
			fmt.Fprintf(s.Out, "API key of tier %-10s x-api-key: %s (no rule has this tier, so it counts as %s)\n", tier, key, inForce.Tier(tier))
		}
	}
}

// self returns the shell command that starts this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return "weir"
	}
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(relative) {
		return filepath.Dir(relative) + "/" + filepath.Base(relative) // ./weir, not weir
	}
	return path
}
