package simulate

import (
	"flag"
	"fmt"
	"regexp"
	"testing"
	"time"
)

var figures = flag.Bool("figures", false, "print the tables of README.md; takes two hours")

// TestFigures prints the tables of README.md.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("SKIPPED: -figures prints the tables, in two hours")
	}
	million := func(p *Parameters, l *Limits) {
		p.Rate, l.All, l.AllLease, p.CacheECPUs = 1e6, 500_000, 5000, 3e6
		p.Warmup, l.Sync = 9*time.Second, 500*time.Millisecond
		p.Invocation = 200 * time.Microsecond
	}
	hundred := func(p *Parameters, l *Limits) {
		p.Warmup, l.Sync, p.Invocation = 9*time.Second, 500*time.Millisecond, 200*time.Microsecond
	}
	twenty := func(p *Parameters, l *Limits) {
		p.Rate, p.Callers, l.All, p.CacheECPUs = 20_000, 200_000, 10_000, 100_000
		p.Warmup, l.Sync = 9*time.Second, 500*time.Millisecond
	}
	for _, c := range []struct {
		title        string
		store        Store
		set          func(*Parameters, *Limits)
		only         string
		environments []int
	}{
		{"DynamoDB, 1,000,000 a second", DynamoDB, million, "all callers: sliding_window, sync", []int{600, 6000}},
		{"ElastiCache, 1,000,000 a second", ElastiCache, million, "all callers.*(shards|fixed_window, lease)", []int{600}},
		{"DynamoDB, 100,000 a second", DynamoDB, hundred, "all callers.*(sliding_window, sync|shards|fixed_window, lease)", []int{600, 6000}},
		{"DynamoDB, 20,000 a second", DynamoDB, twenty, "all callers.*(shards|lease|sync)", []int{0}},
		{"ElastiCache, 20,000 a second", ElastiCache, twenty, "all callers.*(_window$|shards|(fixed_window|bucket), lease)", []int{0}},
		{"DynamoDB, 100,000 a second, each caller", DynamoDB, func(*Parameters, *Limits) {}, "each caller: ([a-z_]+$|.*(shards|sync))", []int{0}},
	} {
		var results []Result
		for _, n := range c.environments {
			p, l := Default(c.store), DefaultLimits()
			c.set(&p, &l)
			p.Environments = n
			plan, err := Plan(p, l, regexp.MustCompile(c.only))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range plan {
				results = append(results, simulated(t, s))
			}
		}
		fmt.Printf("\n### %s\n\n%s", c.title, Report(results))
	}
}
