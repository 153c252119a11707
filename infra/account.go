package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/stack"
)

// account reads from the account, with the AWS CLI, what make deploy passes to the CDK: -c logRole=true if API Gateway has no role for its
// logs, and -c deployed= with the regions of the deployed stack. It asks nothing that is given. It changes nothing.
func account(ctx context.Context, given []string) (settings string, err error) {
	s, err := check(given)
	if err != nil {
		return "", err
	}
	decided := slices.ContainsFunc(given, func(each string) bool { return strings.HasPrefix(each, "logRole=") })
	regions := contract.RegionNames(s.Regions)
	if regions == nil {
		regions = []string{""}
	}
	var in struct{ CloudwatchRoleArn string } // of any region, because a stack must not replace the role of its region
	for i := 0; i < len(regions) && !decided; i++ {
		if _, err := ask(ctx, regions[i], &in, "apigateway", "get-account"); err != nil {
			return "", err
		}
	}
	if in.CloudwatchRoleArn == "" && !decided {
		fmt.Fprintln(os.Stderr, "the account has no role for API Gateway's logs: the stack creates one")
		settings = "-c logRole=true "
	}
	if s.Deployed != nil {
		return settings, nil
	}
	list, err := deployed(ctx, s, regions[0])
	if list != "" {
		settings += "-c deployed=" + list
	}
	return settings, err
}

// deployed returns the regions of the deployed stack, or "" if it is of one region that the settings do not name.
func deployed(ctx context.Context, s stack.Settings, region string) (string, error) {
	var answer struct {
		Stacks []struct {
			Outputs []struct{ OutputKey, OutputValue string }
		}
	}
	exists, err := ask(ctx, region, &answer, "cloudformation", "describe-stacks", "--stack-name", "Weir-"+s.Namespace)
	if err != nil {
		return "", err
	}
	if exists && len(answer.Stacks) == 1 && len(answer.Stacks[0].Outputs) > 0 { // none after a failed first deployment
		for _, output := range answer.Stacks[0].Outputs {
			if output.OutputKey == "Regions" {
				return output.OutputValue, nil
			}
		}
		return region, nil
	}
	if s.Regions == nil || s.Records != "" {
		return stack.NotDeployed, nil
	}
	var left struct {
		Table struct{ Replicas []struct{ RegionName string } }
	}
	exists, err = ask(ctx, region, &left, "dynamodb", "describe-table", "--table-name", s.RecordsName())
	if exists {
		err = fmt.Errorf("the records table %s is in %s, with replicas in %v, but its stack is not: a deployment failed, or was destroyed; set "+
			"recordsTable=%[1]s to use it, or delete it (The first deploy failed, in infra/OPERATIONS.md)", s.RecordsName(), region,
			left.Table.Replicas)
	}
	return stack.NotDeployed, err
}

// ask calls the AWS CLI in a region, "" for that of the environment, and reads its answer. It returns false if what is asked for does
// not exist.
func ask(ctx context.Context, region string, answer any, question ...string) (exists bool, err error) {
	c := exec.CommandContext(ctx, "aws", append(question, "--output", "json")...)
	if region != "" {
		c.Args = append(c.Args, "--region", region)
	}
	var problem bytes.Buffer
	c.Stderr = &problem
	out, err := c.Output()
	switch text := strings.TrimSpace(problem.String()); {
	case errors.Is(err, exec.ErrNotFound):
		return false, errors.New("aws: not found; install the AWS CLI, with which make deploy asks what is deployed, or set what it would " +
			"find: logRole=true if the account has no role for API Gateway's logs, otherwise false, and deployed to the output Regions, or none")
	case strings.Contains(text, "does not exist") || strings.Contains(text, "ResourceNotFoundException"):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("aws %s: %w: %s", strings.Join(question, " "), err, text)
	}
	return true, json.Unmarshal(out, answer)
}
