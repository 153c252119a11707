package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	tables "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	roles "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"

	"github.com/weir-limits/weir/local/verify"
	"github.com/weir-limits/weir/local/verify/account"
)

// deletion is the longest time in which CloudFormation deletes a stack. Lambda needs up to 40 minutes for
// the network interfaces of functions.
const deletion = 90 * time.Minute

// remover deletes a stack.
type remover struct {
	*Runner
	resources []account.Resource
	left      []string // what could not be deleted, with commands
}

// missing reports whether an error of CloudFormation means that the stack does not exist.
func missing(err error) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && e.ErrorCode() == "ValidationError" && strings.Contains(e.ErrorMessage(), "does not exist")
}

func (r *remover) remove(ctx context.Context, stack string) {
	if err := r.removeStack(ctx, stack); err != nil {
		r.left = append(r.left, fmt.Sprintf("the stack %s (%v); run: %s", stack, err, r.deleteCommand(stack)))
	}
	for _, each := range r.resources {
		if !each.Retained {
			continue
		}
		if each.Physical == "" {
			if each.Status == "CREATE_IN_PROGRESS" { // an interrupt came before CloudFormation knew its name
				r.left = append(r.left, fmt.Sprintf("perhaps %s %s, whose name is unknown; find it: aws dynamodb list-tables --region %s; aws iam list-roles", each.Type, each.ID, r.Config.Region))
			}
			continue
		}
		remove, command := r.retained(each)
		if remove == nil {
			r.left = append(r.left, fmt.Sprintf("%s %s", each.Type, each.Physical))
			continue
		}
		if err := remove(ctx, each.Physical); err != nil {
			r.left = append(r.left, fmt.Sprintf("%s %s (%v); run: %s", each.Type, each.Physical, err, command))
		}
	}
}

func (r *remover) removeStack(ctx context.Context, stack string) error {
	client := cloudformation.NewFromConfig(r.Config)
	if _, err := client.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &stack}); err != nil {
		return err
	}
	// After an interrupt, CloudFormation can have created more before it began to delete.
	if now, err := account.Open(ctx, r.Config, stack); err == nil {
		r.resources = now.Resources()
	}
	return cloudformation.NewStackDeleteCompleteWaiter(client, func(o *cloudformation.StackDeleteCompleteWaiterOptions) {
		o.MinDelay, o.MaxDelay = 5*time.Second, 30*time.Second
	}).Wait(ctx, &cloudformation.DescribeStacksInput{StackName: &stack}, deletion)
}

// retained returns the function that deletes a resource that CloudFormation retains, and the command with
// which a person deletes it. The function is nil if the type is unknown.
func (r *remover) retained(each account.Resource) (remove func(context.Context, string) error, command string) {
	region := " --region " + r.Config.Region
	switch each.Type {
	case "AWS::DynamoDB::Table":
		return r.removeTable, fmt.Sprintf("aws dynamodb update-table%s --table-name %[2]s --no-deletion-protection-enabled && aws dynamodb delete-table%[1]s --table-name %[2]s", region, each.Physical)
	case "AWS::IAM::Role":
		return r.removeRole, "aws iam delete-role --role-name " + each.Physical + " (after its policies)"
	case "AWS::ApiGateway::Account": // a setting of the account, which removeRole resets
		return func(context.Context, string) error { return nil }, ""
	}
	return nil, ""
}

// tableReads is the number of reads of a table's state.
const tableReads = 60

func (r *remover) removeTable(ctx context.Context, name string) error {
	client := dynamodb.NewFromConfig(r.Config)
	_, err := client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)})
	for range tableReads {
		if _, gone := errors.AsType[*tables.ResourceNotFoundException](err); gone {
			return nil
		}
		if _, busy := errors.AsType[*tables.ResourceInUseException](err); err != nil && !busy {
			return err
		}
		if _, err = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err == nil {
			return nil
		}
		if err := r.wait(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return err
}

// removeRole deletes the role for API Gateway's logs. If the account uses the role, the account then has
// none, as before.
func (r *remover) removeRole(ctx context.Context, name string) error {
	client := iam.NewFromConfig(r.Config)
	role, err := client.GetRole(ctx, &iam.GetRoleInput{RoleName: &name})
	if _, gone := errors.AsType[*roles.NoSuchEntityException](err); gone {
		return nil
	}
	if err != nil {
		return err
	}
	used, err := LogRole(ctx, r.Config)
	if err != nil {
		return err
	}
	if used != "" && used == aws.ToString(role.Role.Arn) {
		if _, err := apigateway.NewFromConfig(r.Config).UpdateAccount(ctx, &apigateway.UpdateAccountInput{PatchOperations: []types.PatchOperation{
			{Op: types.OpReplace, Path: aws.String("/cloudwatchRoleArn"), Value: aws.String("")},
		}}); err != nil {
			return err
		}
	}
	attached, err := client.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &name})
	if err != nil {
		return err
	}
	for _, policy := range attached.AttachedPolicies {
		if _, err := client.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: &name, PolicyArn: policy.PolicyArn}); err != nil {
			return err
		}
	}
	_, err = client.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: &name})
	return err
}

func (p *Runner) wait(ctx context.Context, d time.Duration) error {
	if p.Wait != nil {
		return p.Wait(ctx, d)
	}
	return verify.Sleep(ctx, d)
}
