package account

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/telemetry"
	"github.com/weir-limits/weir/local/verify"
)

// Regions returns the regions that share limits. It returns none for a deployment in one region.
func (s *Stack) Regions() []string {
	if list := s.setting(contract.VariableRegions); list != "" {
		return contract.RegionNames(strings.Split(list, ","))
	}
	return nil
}

// regionsTables tests that each region has the tables that the functions name.
func (s *Stack) regionsTables(ctx context.Context) verify.Observation {
	regions := s.Regions()
	if regions == nil {
		return skipped("the stack is in one region; deploy it with regions")
	}
	var problems []string
	for _, region := range regions {
		for _, variable := range []string{contract.VariableTable, contract.VariableRecordsTable} {
			name := s.setting(variable)
			out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name}, func(o *dynamodb.Options) { o.Region = region })
			if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
				problems = append(problems, fmt.Sprintf("%s: no table %s", region, name))
				continue
			}
			if err != nil {
				s.keep(fmt.Errorf("table %s in %s: %w", name, region, err))
				return verify.Observation{}
			}
			if status := out.Table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
				problems = append(problems, fmt.Sprintf("%s: table %s: %s", region, name, status))
			}
		}
	}
	return verdict("the counters and the records in each region", fmt.Sprintf("%d regions", len(regions)), problems)
}

// regionsSettings tests that the functions of all regions agree. If their lists have another order, the base shares can
// together exceed a limit; with another namespace, a region counts for itself.
func (s *Stack) regionsSettings(ctx context.Context) verify.Observation {
	regions := s.Regions()
	if regions == nil {
		return skipped("the stack is in one region; deploy it with regions")
	}
	var problems []string
	for _, region := range regions {
		if region == s.region {
			continue
		}
		config := s.config
		config.Region = region
		other, err := Open(ctx, config, s.Name)
		if !s.keep(err) {
			return verify.Observation{}
		}
		for _, variable := range []string{contract.VariableRegions, contract.VariableNamespace} {
			if got, want := other.setting(variable), s.setting(variable); got != want {
				problems = append(problems, fmt.Sprintf("%s: %s is %q, want %q as in %s", region, variable, got, want, s.region))
			}
		}
	}
	return verdict("the same regions and namespace everywhere", fmt.Sprintf("%d regions", len(regions)), problems)
}

// regionsReached tests that other regions answered the functions. The first call of an environment can fail, because it
// opens the connection.
func (s *Stack) regionsReached(ctx context.Context) verify.Observation {
	if s.Regions() == nil {
		return skipped("the stack is in one region; deploy it with regions")
	}
	calls := s.await(ctx, count.sinceRun, s.namespace(), telemetry.RegionCalls)
	failed := s.count(ctx, s.namespace(), telemetry.RegionsFailed)
	if calls.now == 0 {
		return skipped("no request needed share of another region since this run began")
	}
	o := verdict("answers of other regions", fmt.Sprintf("%.0f calls, %.0f of them failed", calls.now, failed.now), problem(failed.now >= calls.now, "none of %.0f calls was answered", calls.now))
	o.Warning = failed.warning("failed calls of other regions")
	return o
}
