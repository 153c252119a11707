package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/local/command"
	"github.com/weir-limits/weir/local/regions"
	"github.com/weir-limits/weir/local/servers"
)

// regionPorts is the distance of the ports of two regions.
const regionPorts = 10

// region is the place of a Server among those that share limits.
type region struct {
	all   *regions.Regions
	place int
	first *Server // starts the server of the store
}

func (r *region) name() string { return r.all.Names()[r.place] }

// EachRegion returns a Server for each of the Regions in the Options of s, which has not started. Start them in this order;
// all but the first one print nothing.
func (s *Server) EachRegion() ([]*Server, error) {
	o := s.Options
	switch {
	case o.Store == "redis":
		return nil, command.Usage("--regions: got --store redis, want memory or dynamodb: Redis cannot move share")
	case o.Environments > 0:
		return nil, command.Usage("--environments: got %d, want 0 with --regions, whose functions run in this process", o.Environments)
	case o.Edge != 0:
		return nil, command.Usage("--edge: got %s, want 0 with --regions: a distribution never refuses for limits that regions share", o.Edge)
	}
	all := regions.New(o.Regions, o.Clock)
	var list []*Server
	for i := range o.Regions {
		one := New(o)
		one.Port += i * regionPorts
		list = append(list, one)
		if one.region = (&region{all, i, list[0]}); i > 0 {
			one.Out = io.Discard
		}
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
	list[0].greet(list[0].apis)
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
	if s.region != nil {
		c.Namespace += "-" + s.region.name()
	}
	return c, err
}

// placed returns c with the place of this region among those that share limits.
func (s *Server) placed(c boot.Config) boot.Config {
	if s.region != nil {
		c.Regions, c.Region = s.region.all.Names(), s.region.name()
	}
	return c
}

// otherRegions returns the stores of the other regions; none with one region.
func (s *Server) otherRegions() []limiter.Shares {
	if s.region == nil {
		return nil
	}
	return s.region.all.Others(s.region.place)
}

// storeAddress returns the address of the store's server if another region has started it.
func (s *Server) storeAddress() string {
	if s.region == nil || s.region.first == s {
		return ""
	}
	return s.region.first.variables[servers.Variables[s.Store]]
}

// greetRegions prints the addresses of the other regions.
func (s *Server) greetRegions(inForce *rules.Rules, apis int) {
	if s.region == nil {
		return
	}
	for i, name := range s.region.all.Names() {
		other := &Server{Options: Options{Port: s.Port + i*regionPorts}}
		fmt.Fprintf(s.Out, "%s  %s\n", name, strings.Join(other.urls(apis), "  "))
	}
	fmt.Fprintf(s.Out, "%s apart; the page Regions shows their shares, and cuts a region off\n", regions.RoundTrip)
	if !slices.ContainsFunc(inForce.Limits(), func(l rules.Listed) bool { return l.Shared }) {
		fmt.Fprintln(s.Out, `warning: --regions: the rules have no limit with "regions": "shared", so each region admits every whole limit; local/examples/regions.json has one`)
	}
}
