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
func (s *Stack) regionsTables(ctx context.Context) (verify.Observation, error) {
	regions := s.Regions()
	if regions == nil {
		return skipped("the stack is in one region; deploy it with regions"), nil
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
				return verify.Observation{}, fmt.Errorf("table %s in %s: %w", name, region, err)
			}
			if status := out.Table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
				problems = append(problems, fmt.Sprintf("%s: table %s: %s", region, name, status))
			}
		}
	}
	return verdict("the counters and the records in each region", fmt.Sprintf("%d regions", len(regions)), problems), nil
}

// regionsSettings tests that the functions of all regions agree. If their lists have another order, the base shares can
// together exceed a limit; with another namespace, a region counts for itself.
func (s *Stack) regionsSettings(ctx context.Context) (verify.Observation, error) {
	regions := s.Regions()
	if regions == nil {
		return skipped("the stack is in one region; deploy it with regions"), nil
	}
	var problems []string
	for _, region := range regions {
		if region == s.region {
			continue
		}
		config := s.config
		config.Region = region
		other, err := Open(ctx, config, s.Name)
		if err != nil {
			return verify.Observation{}, err
		}
		for _, variable := range []string{contract.VariableRegions, contract.VariableNamespace} {
			if got, want := other.setting(variable), s.setting(variable); got != want {
				problems = append(problems, fmt.Sprintf("%s: %s is %q, want %q as in %s", region, variable, got, want, s.region))
			}
		}
	}
	return verdict("the same regions and namespace everywhere", fmt.Sprintf("%d regions", len(regions)), problems), nil
}

// regionsReached tests that other regions answered the functions. The first call of an environment can fail, because it
// opens the connection.
func (s *Stack) regionsReached(ctx context.Context) (verify.Observation, error) {
	if s.Regions() == nil {
		return skipped("the stack is in one region; deploy it with regions"), nil
	}
	calls, err := s.await(ctx, s.namespace(), telemetry.RegionCalls)
	if err != nil {
		return verify.Observation{}, err
	}
	failed, err := s.count(ctx, s.namespace(), telemetry.RegionsFailed)
	if err != nil {
		return verify.Observation{}, err
	}
	if calls.now == 0 {
		return skipped("no request needed share of another region since this run began"), nil
	}
	var problems []string
	if failed.now >= calls.now {
		problems = append(problems, fmt.Sprintf("none of %.0f calls was answered", calls.now))
	}
	o := verdict("answers of other regions", fmt.Sprintf("%.0f calls, %.0f of them failed", calls.now, failed.now), problems)
	o.Warning = failed.warning("failed calls of other regions")
	return o, nil
}
