package account

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

const functionType = "AWS::Lambda::Function"

// weirFunctions returns the functions of Weir. The stack can have other functions.
func (s *Stack) weirFunctions() (all []Resource) {
	for _, r := range s.of(functionType) {
		if variables(r)[contract.VariableFunction] != nil || variables(r)[contract.VariableNamespace] != nil {
			all = append(all, r)
		}
	}
	return all
}

func variables(r Resource) map[string]any {
	v, _ := verify.At(r.Properties, "Environment", "Variables").(map[string]any)
	return v
}

// setting returns a variable of the functions, or "".
func (s *Stack) setting(name string) string {
	for _, r := range s.weirFunctions() {
		if v := s.value(variables(r)[name]); v != "" {
			return v
		}
	}
	return ""
}

// APIKeyHeader returns the variable API_KEY_HEADER of the functions, or "".
func (s *Stack) APIKeyHeader() string { return s.setting(contract.VariableAPIKeyHeader) }

// RefusesDirect reports whether the functions refuse requests around the distributions.
func (s *Stack) RefusesDirect() bool {
	return s.setting(contract.VariableDirectRequests) == contract.DirectRefuse
}

// function returns the function with a role, such as contract.Authorizer.
func (s *Stack) function(role string) (Resource, bool) {
	for _, r := range s.weirFunctions() {
		if variables(r)[contract.VariableFunction] == role {
			return r, true
		}
	}
	return Resource{}, false
}

func (s *Stack) configurations(ctx context.Context) (all []*lambda.GetFunctionConfigurationOutput) {
	for _, r := range s.weirFunctions() {
		out, err := s.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &r.Physical})
		if err != nil {
			s.keep(fmt.Errorf("%s: %w", r.ID, err))
			return nil
		}
		all = append(all, out)
	}
	return all
}

func inactive(all []*lambda.GetFunctionConfigurationOutput) (problems []string) {
	for _, f := range all {
		problems = append(problems, problem(f.State != types.StateActive, "%s: state %s: %s", aws.ToString(f.FunctionName), f.State, aws.ToString(f.StateReason))...)
	}
	return problems
}

func (s *Stack) functionsActive(ctx context.Context) verify.Observation {
	all := s.configurations(ctx)
	if len(all) == 0 {
		return skipped("the stack has no function of Weir")
	}
	return verdict("active functions", fmt.Sprintf("%d functions", len(all)), inactive(all))
}

func (s *Stack) functionNetwork(ctx context.Context) verify.Observation {
	connected := slices.DeleteFunc(s.configurations(ctx), func(f *lambda.GetFunctionConfigurationOutput) bool {
		return f.VpcConfig == nil || len(f.VpcConfig.SubnetIds) == 0
	})
	if len(connected) == 0 {
		return skipped("the functions have no network; deploy the stack with store=elasticache")
	}
	return verdict("active functions in subnets", fmt.Sprintf("%d functions", len(connected)), inactive(connected))
}

// propagation is the time in which a change of the reserved concurrency takes effect.
const propagation = 10 * time.Second

// BreakAuthorizer implements [verify.Faults]. It sets the reserved concurrency of the authorizer to 0.
func (s *Stack) BreakAuthorizer(ctx context.Context) (restore func(context.Context) error, err error) {
	r, ok := s.function(contract.Authorizer)
	if !ok {
		return nil, fmt.Errorf("stack %s: no authorizer", s.Name)
	}
	before, err := s.functions.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &r.Physical})
	if err != nil {
		return nil, err
	}
	command := "aws lambda delete-function-concurrency --function-name " + r.Physical
	if n := before.ReservedConcurrentExecutions; n != nil {
		if *n == 0 { // to restore 0 would leave the REST API without an authorizer
			return nil, fmt.Errorf("function %s: its reserved concurrency is 0 already, perhaps because an earlier run was killed; run: %s --region %s", r.Physical, command, s.region)
		}
		command = fmt.Sprintf("aws lambda put-function-concurrency --reserved-concurrent-executions %d --function-name %s", *n, r.Physical)
	}
	put := func(ctx context.Context, n int32) error {
		_, err := s.functions.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{FunctionName: &r.Physical, ReservedConcurrentExecutions: &n})
		return err
	}
	return s.change(ctx, "the reserved concurrency of the function "+r.Physical, command,
		func(ctx context.Context) error {
			if err := put(ctx, 0); err != nil {
				return err
			}
			return s.Wait(ctx, propagation)
		},
		func(ctx context.Context) error {
			if n := before.ReservedConcurrentExecutions; n != nil {
				return put(ctx, *n)
			}
			_, err := s.functions.DeleteFunctionConcurrency(ctx, &lambda.DeleteFunctionConcurrencyInput{FunctionName: &r.Physical})
			return err
		})
}
