package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/simulate"
)

type simulation struct {
	simulate.Parameters
	simulate.Limits
	simulate.Answers
	environments []int
	rules        string
	document     *rules.Rules // nil without --rules
	only         string
	columns      []string
	parallel     int
	quick        bool
	asJSON       bool
}

func simulateCommand() *cobra.Command {
	given := simulation{Parameters: simulate.Default(simulate.DynamoDB), Limits: simulate.DefaultLimits(), Answers: simulate.DefaultAnswers()}
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate cost and accuracy of limits at up to a million requests a second",
		Long: "Run the limiter against a simulated DynamoDB or ElastiCache on a virtual clock. Print the percentage of requests that is admitted, the percentage of wrong decisions, and the dollars of 30 days. " +
			"A decision is wrong if an oracle that sees all requests in order decides otherwise. The command uses no network.\n\n" +
			"With --rules, each row is a rule of your document for a tier, with all requests for its endpoint. Without it, the rows are algorithms and ways to reduce store calls.\n\n" +
			"With --regions, regions share the limits, and the table compares what they admit with one store. With --rules, the rows are those whose limits all have \"regions\": \"shared\".\n\n" +
			"It takes some minutes on two processors; --quick simulates a tenth of the traffic. local/simulate describes the model and its limits.",
		Example: "  weir simulate --rules rules.json --rate 5000\n  weir simulate --quick\n  weir simulate --rate 1000000 --all 500000 --environments 600,6000 --only 'all callers'\n  weir simulate --store elasticache --rate 200000 --json\n  weir simulate --regions 3 --only '1,000 a minute'",
		Args:    command.Exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := given.settle(c)
			if err == nil {
				err = s.read(c)
			}
			if err != nil {
				return err
			}
			return s.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	given.bind(c)
	return c
}

// bind adds the flags to c. The values in s are their defaults.
func (s *simulation) bind(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.rules, "rules", s.rules, "the rules document to simulate; --rate and --callers are then 1000 by default, and --warm-up and --time the longest window, at most 1m")
	f.StringVar((*string)(&s.Store), "store", string(s.Store), "dynamodb or elasticache")
	f.Uint64Var(&s.Seed, "seed", s.Seed, "seed of the random numbers; the same seed has the same result")
	f.Float64Var(&s.Rate, "rate", s.Rate, "requests a second")
	f.IntVar(&s.Callers, "callers", s.Callers, "number of callers")
	f.Float64Var(&s.Exponent, "exponent", s.Exponent, "exponent of Zipf's law, which distributes requests among callers; 0: all callers send the same number")
	f.DurationVar(&s.Warmup, "warm-up", s.Warmup, "virtual time before the measurement starts")
	f.DurationVar(&s.Measured, "time", s.Measured, "virtual time that is measured")
	f.DurationVar(&s.Edge, "edge", s.Edge, "with --rules, time until a new entry in the list of a distribution in front acts, such as 10s; 0: no distribution. The table then has what it refuses")
	f.IntVar(&s.Regions, "regions", s.Regions, "number of regions that share the limits; 0: one region")
	f.DurationVar(&s.Distance, "distance", s.Distance, "with --regions, what a round trip to another region takes longer")
	f.IntSliceVar(&s.environments, "environments", s.environments, "numbers of environments in each region, each simulated separately; 0: three times the number that is busy if each decision makes one call")
	f.DurationVar(&s.Invocation, "invocation", s.Invocation, "duration of an invocation, without the wait for the store")
	f.DurationVar(&s.Timeout, "timeout", s.Timeout, "maximum time that a decision waits for the store (elasticache: 50ms)")
	f.DurationVar(&s.Median, "median", s.Median, "median round trip to the store (elasticache: 600µs)")
	f.DurationVar(&s.P99, "p99", s.P99, "99th percentile of the round trip (elasticache: 2ms)")
	f.Float64Var(&s.ItemWrites, "item-writes", s.ItemWrites, "maximum write units a second of one DynamoDB item")
	f.Float64Var(&s.SlotECPUs, "slot-ecpus", s.SlotECPUs, "maximum ECPUs a second of one ElastiCache slot")
	f.Float64Var(&s.CacheECPUs, "cache-ecpus", s.CacheECPUs, "maximum ECPUs a second of the whole cache")
	f.DurationVar(&s.Window, "window", s.Window, "window of the limits")
	f.Int64Var(&s.Each, "each", s.Each, "the limit of each caller, in requests per window")
	f.Int64Var(&s.All, "all", s.All, "the limit of all callers together")
	f.Int64Var(&s.EachLease, "each-lease", s.EachLease, "the lease of a caller's limit")
	f.Int64Var(&s.AllLease, "all-lease", s.AllLease, "the lease of the limit for all callers")
	f.IntVar(&s.Shards, "shards", s.Shards, "number of shards of the limit for all callers")
	f.DurationVar(&s.Sync, "sync", s.Sync, "interval at which synchronized counters exchange their counts")
	f.Int64Var(&s.Cost, "cost", s.Cost, "for limits with count, median of the actual cost, or of the bytes")
	f.Int64Var(&s.CostP99, "cost-p99", s.CostP99, "99th percentile of the actual cost; equal to --cost: all requests cost the same")
	f.DurationVar(&s.Duration, "duration", s.Duration, "for limits with count, median time from the admission of a request to the end of its answer")
	f.DurationVar(&s.DurationP99, "duration-p99", s.DurationP99, "99th percentile of the duration")
	f.Float64Var(&s.Failures, "failures", s.Failures, "for limits with count, part of the requests that fail")
	f.StringVar(&s.only, "only", s.only, "simulate only the limits whose names this regular expression matches")
	f.StringSliceVar(&s.columns, "columns", s.columns, "the columns of the table by name, or all; default: limit, admitted %, wrong %, $ a month, and with --edge at the edge %")
	f.IntVar(&s.parallel, "parallel", runtime.GOMAXPROCS(0), "number of processors; the result does not depend on it")
	f.BoolVar(&s.quick, "quick", s.quick, "simulate a tenth of the requests and callers, with a tenth of the limits that callers share; the dollars are those of all requests")
	f.BoolVar(&s.asJSON, "json", s.asJSON, "print one JSON object")
}

// settle returns s with the defaults of its store and of --rules. A flag on the command line
// overrides a default.
func (s simulation) settle(c *cobra.Command) (simulation, error) {
	settled := simulation{Parameters: simulate.Default(s.Store), Limits: simulate.DefaultLimits(), Answers: simulate.DefaultAnswers(), environments: s.environments, columns: s.columns}
	if s.rules != "" {
		settled.Rate, settled.Callers, settled.Warmup, settled.Measured = 1000, 1000, 0, 0
	}
	if s.quick {
		settled.Sample = 10
	}
	again := &cobra.Command{}
	settled.bind(again)
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		// Set of these flags cannot parse the text of String; the value is already in settled
		if f.Name == "environments" || f.Name == "columns" {
			return
		}
		if problem := again.Flags().Set(f.Name, f.Value.String()); problem != nil {
			err = problem
		}
	})
	return settled, err
}

// ownLimits are the flags that describe limits. With --rules, the document describes the limits. ownTraffic are those that
// describe requests. With --regions and no --rules, each row has its own limit and its own requests.
var (
	ownLimits  = []string{"window", "each", "all", "each-lease", "all-lease", "shards", "sync"}
	ownTraffic = []string{"rate", "callers", "exponent", "warm-up", "time", "quick"}
)

// checkEffects returns an error if a flag has no effect beside others.
func (s *simulation) checkEffects(c *cobra.Command) error {
	var without []string
	var reason string
	switch {
	case s.rules != "":
		without, reason = ownLimits, "with --rules, whose limits have their own values"
	case s.Regions != 0:
		without, reason = slices.Concat(ownLimits, ownTraffic), "with --regions, whose rows have their own values; give --rules to simulate your own limits"
	}
	if s.Edge > 0 && s.rules == "" {
		return command.Usage("--edge: requires --rules: a distribution refuses only for limits of a document")
	}
	if s.Regions == 0 {
		if c.Flags().Changed("distance") {
			return command.Usage("--distance: has no effect without --regions")
		}
		s.Distance = 0
	}
	for _, name := range without {
		if c.Flags().Changed(name) {
			return command.Usage("--%s: has no effect %s", name, reason)
		}
	}
	return nil
}

// read reads the document of --rules.
func (s *simulation) read(c *cobra.Command) error {
	if err := s.checkEffects(c); err != nil || s.rules == "" {
		return err
	}
	document, err := readDocument(c.Context(), c.InOrStdin(), s.rules)
	if err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	o := rules.Options{Items: dynamostore.Items{}, OneRegion: s.Regions == 0, Regions: algo.Regions{Of: s.Regions}}
	if s.Store == simulate.DynamoDB {
		o.LeaseAbove = rules.LeaseAboveDynamoDB
	}
	if s.document, err = rules.Parse(document, o); err != nil {
		return fmt.Errorf("--rules: %s: %w", s.rules, err)
	}
	if s.Edge > 0 && len(s.document.Edge().Limits) == 0 {
		return command.Usage("--edge: %s has no limit for which a distribution can refuse requests; weir check --edge prints the reasons", s.rules)
	}
	return nil
}

func (s simulation) run(ctx context.Context, out, errs io.Writer) error {
	plan, err := s.plan()
	if err != nil {
		return command.AsUsage(err)
	}
	columns, err := simulate.ParseColumns(s.columns, plan[0].Parameters, len(s.environments) > 1)
	if err != nil {
		return command.Usage("--%w", err)
	}
	var progress atomic.Int64
	begun := time.Now()
	stop := report(errs, &progress, plan, begun)
	results, err := simulate.RunPlan(ctx, plan, s.parallel, &progress)
	stop()
	if err != nil {
		return err
	}
	p, about := plan[0].Parameters, s.about()
	if s.document == nil && s.Regions > 0 {
		p.Rate, p.Callers, p.Warmup, p.Measured = 0, 0, 0, 0
	}
	n, took := progress.Load(), time.Since(begun)
	fmt.Fprintf(errs, "weir: simulated %d requests in %s, %.0f a second\n", n, took.Round(time.Second/10), float64(n)/took.Seconds())
	if s.asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(simulated{p, s.rules, s.Limits, s.Answers, results})
	}
	_, err = io.WriteString(out, simulate.Report(p, about, columns, results))
	return err
}

// about describes the rows in a sentence or two.
func (s simulation) about() string {
	about := s.About()
	switch {
	case s.document != nil:
		about = "Each row is a rule of " + s.rules + " for a tier, with all requests for its endpoint. Each caller has its own address, identity, header fields and path parameters."
	case s.Regions > 0:
		about = "The percentage is that of the requests, of the limit."
	}
	if s.Regions > 0 {
		about += " A name ends with the regions in which the requests arrive. A region that is cut off exchanges no message with the others in the measured time."
	}
	return about
}

// simulated is the output of --json.
type simulated struct {
	Parameters simulate.Parameters `json:"parameters"`
	Rules      string              `json:"rules,omitempty"` // the file of the document, whose limits replace Limits
	Limits     simulate.Limits     `json:"limits"`
	Answers    simulate.Answers    `json:"answers"`
	Results    []simulate.Result   `json:"results"`
}

func (s simulation) plan() ([]simulate.Scenario, error) {
	only, err := regexp.Compile(s.only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	fleets := s.environments
	if len(fleets) == 0 {
		fleets = []int{0}
	}
	var plan []simulate.Scenario
	for _, n := range fleets {
		s.Environments = n
		var part []simulate.Scenario
		switch {
		case s.document != nil:
			part, err = simulate.PlanRules(s.Parameters, s.Answers, s.document, only)
		case s.Regions != 0:
			part, err = simulate.PlanRegions(s.Parameters, only)
		default:
			part, err = simulate.Plan(s.Parameters, s.Limits, only)
		}
		if err != nil {
			return nil, err
		}
		plan = append(plan, part...)
	}
	return plan, nil
}

// report prints progress on a terminal after two seconds, then after pauses that double up to half a minute, until the
// returned function is called.
func report(to io.Writer, progress *atomic.Int64, plan []simulate.Scenario, begun time.Time) (stop func()) {
	if !command.IsTerminal(to) {
		return func() {}
	}
	total := 0.0
	for _, s := range plan {
		total += s.Requests()
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for pause := 2 * time.Second; ; pause = min(2*pause, 30*time.Second) {
			select {
			case <-done:
				return
			case now := <-time.After(pause):
				fmt.Fprintf(to, "weir: %s\n", estimate(float64(progress.Load())/total, now.Sub(begun), total))
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// estimate describes the progress. part is the part of the requests that is done, after is the time since
// the start, and total is the number of requests.
func estimate(part float64, after time.Duration, total float64) string {
	left := "unknown time"
	if part > 0 {
		left = time.Duration(max(0, 1/part-1) * float64(after)).Round(time.Second).String()
	}
	return fmt.Sprintf("%.0f %% of %.1f million requests, %s left", 100*min(1, part), total/1e6, left)
}
