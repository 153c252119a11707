package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
)

// regionPorts is the distance of the ports of two regions.
const regionPorts = 10

// regions are the regions of this process.
type regions struct{ list []*region }

// region is a Server among those that share limits.
type region struct {
	*Server
	all    *regions
	name   string
	shares limiter.Shares // of the store
	cut    atomic.Bool    // no message passes between this region and others
}

// join sets the store of the region.
func (r *region) join(store limiter.Store) error {
	shares, ok := limiter.SharesOf(store)
	if !ok {
		return errors.New("regions: got a store that cannot move share, want memory or dynamodb")
	}
	r.shares = shares
	return nil
}

// EachRegion returns a Server for each of the Regions in the Options of s, which has not started. Start them in this order;
// all but the first one print nothing.
func (s *Server) EachRegion() ([]*Server, error) {
	o := s.Options
	if o.Store == "redis" {
		return nil, command.Usage("--regions: got --store redis, want memory or dynamodb: Redis cannot move share")
	}
	all := &regions{}
	var list []*Server
	for i := range o.Regions {
		one := New(o)
		one.Port += i * regionPorts
		one.region = &region{Server: one, all: all, name: fmt.Sprintf("region-%d", i+1)}
		all.list = append(all.list, one.region)
		if i > 0 {
			one.Out = io.Discard
		}
		list = append(list, one)
	}
	return list, nil
}

// runRegions serves all regions until ctx ends.
func (s *Server) runRegions(ctx context.Context) error {
	list, err := s.EachRegion()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var serving []func() error
	for _, one := range list {
		defer one.Close()
		run, err := one.start(ctx)
		if err != nil {
			return err
		}
		serving = append(serving, run)
	}
	list[0].greet()
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, run := range serving {
		all.Go(func() {
			errs[i] = run()
			cancel()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// load reads the variables of a function. Each region has a namespace of its own in the store.
func (s *Server) load(environment map[string]string) (boot.Config, error) {
	c, err := clients.Load(s.lookup(environment))
	if c.Identity != "" && c.Identity != contract.IdentityWeir {
		err = fmt.Errorf("IDENTITY: got %s, want %s: no host on this machine verifies callers; set JWKS, JWT_ISSUER and JWT_AUDIENCE to verify "+
			"their tokens", c.Identity, contract.IdentityWeir)
	}
	if s.region != nil {
		c.Namespace += "-" + s.region.name
	}
	return c, err
}

// placed returns c with the place of this region among those that share limits.
func (s *Server) placed(c boot.Config) boot.Config {
	if s.region != nil {
		c.Regions, c.Region = s.region.all.names(), s.region.name
	}
	return c
}

// otherRegions returns the stores of the other regions as this one reaches them, and nil for itself; none with one region.
func (s *Server) otherRegions() (others []limiter.Shares) {
	if s.region == nil {
		return nil
	}
	for _, to := range s.region.all.list {
		if to == s.region {
			others = append(others, nil)
		} else {
			others = append(others, link{s.region, to})
		}
	}
	return others
}

// storeAddress returns the address of the store's server if another region has started it.
func (s *Server) storeAddress() string {
	if s.region == nil || s.region == s.region.all.list[0] {
		return ""
	}
	return s.region.all.list[0].variables[addresses[s.Store]]
}

// greetRegions prints the addresses of the other regions.
func (s *Server) greetRegions(inForce *rules.Rules, apis int) {
	if s.region == nil {
		return
	}
	for _, one := range s.region.all.list {
		fmt.Fprintf(s.Out, "%s  %s\n", one.name, strings.Join(one.urls(apis), "  "))
	}
	fmt.Fprintf(s.Out, "%s apart; weir usage shows the share of a region (--url), and this cuts one off:\n"+
		"  curl -H 'Content-Type: application/json' -d '{\"region\":\"region-2\",\"cut\":true}' %s%s\n", roundTrip, s.urls(1)[0], cutPath)
	if !slices.ContainsFunc(inForce.Limits(), func(l rules.Listed) bool { return l.Shared }) {
		fmt.Fprintln(s.Out, `warning: --regions: the rules have no limit with "regions": "shared", so each region admits every whole limit; `+
			`local/examples/regions.json has one`)
	}
}
