package boot

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/resilient"
)

var validRegion = pattern(`^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$`)

func (c *Config) checkRegions(check func(ok bool, format string, args ...any)) {
	if len(c.Regions) == 0 {
		return
	}
	check(c.Table() != "", "REGIONS: got a STORE without a table, want dynamodb://TABLE; no other store can be reached from other regions")
	check(len(c.Regions) >= 2 && len(c.Regions) <= algo.MaxRegions, "REGIONS: got %d regions, want 2 to %d", len(c.Regions), algo.MaxRegions)
	names, shares := contract.RegionNames(c.Regions), len(c.Regions)
	for i, name := range names {
		check(validRegion().MatchString(name), "REGIONS: got %q, want a region such as eu-central-1", c.Regions[i])
		check(!slices.Contains(names[:i], name), "REGIONS: got %s twice", name)
		if strings.HasSuffix(c.Regions[i], contract.WithoutShare) {
			shares--
		}
	}
	number, _ := contract.ListNumber(c.Regions[0])
	check(shares == len(names) || number > 0, "REGIONS: got a list with %s and without a number, want one before the first region that grows "+
		"with each change of the list, such as 2:%s", contract.WithoutShare, names[0])
	check(shares > 0, "REGIONS: got %s in all regions, want at most in those that join or leave", contract.WithoutShare)
	check(slices.Contains(names, c.Region), "REGIONS: got no %q, want a list with AWS_REGION, the region of this function", c.Region)
}

// place returns the place of this region among those that share limits. It is the zero value without REGIONS.
func (c Config) place() (r algo.Regions) {
	for i, name := range contract.RegionNames(c.Regions) {
		if name == c.Region {
			r.Place = i
		}
		if strings.HasSuffix(c.Regions[i], contract.WithoutShare) {
			r.Without |= 1 << i
		}
	}
	if len(c.Regions) > 0 {
		r.List, _ = contract.ListNumber(c.Regions[0])
	}
	r.Of = len(c.Regions)
	return r
}

// keyRecords returns the records of this region, for keys that the first function creates. It creates them in the first of the
// regions: a global table keeps only the last of two writes that two regions accept at once, and a function of the other
// region would go on with the lost key.
func (c Config) keyRecords(ctx context.Context) (records.ReadWriter, error) {
	own, err := c.onlyDynamoDBClient(ctx)
	names := contract.RegionNames(c.Regions)
	if err != nil || len(names) == 0 || names[0] == c.Region {
		return own, err
	}
	first, err := c.dynamoDBClient(ctx, names[0], resilient.ConnectionLife)
	return struct {
		records.Reader
		records.Writer
	}{own, first}, err
}

// openRegions returns the stores of the regions that share limits, without the one of this region. It returns none without
// REGIONS. It opens no connection.
func (c Config) openRegions(ctx context.Context) (all []limiter.Shares, err error) {
	for _, region := range contract.RegionNames(c.Regions) {
		if region == c.Region {
			all = append(all, nil)
			continue
		}
		client, err := c.dynamoDBClient(ctx, region, resilient.RegionConnectionLife)
		if err != nil {
			return nil, err
		}
		store, err := openTable(client, c.Table(), c.Namespace)
		if err != nil {
			return nil, err
		}
		shares, _ := limiter.SharesOf(store)
		all = append(all, shares)
	}
	return all, nil
}

// connectRegions opens connections to the other regions. It does not wait for them: until they are open, a request that needs
// share of another region is refused for a second.
func (c Config) connectRegions(ctx context.Context, regions []limiter.Shares, logger *slog.Logger) {
	for i, other := range regions {
		store, ok := other.(limiter.Store)
		if !ok { // this region
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resilient.FirstTimeout)
			defer cancel()
			if err := c.Probe(ctx, store); err != nil {
				logger.Warn("region not reached", slog.String("region", c.Regions[i]), slog.Any("err", err))
			}
		}()
	}
}
