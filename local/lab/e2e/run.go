package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/local/verify/account"
)

type run struct {
	*Runner
	stack, store string
	newRole      bool     // the stack creates the role for API Gateway's logs
	settings     []string // of the deployment, as -c key=value
	credentials  []string // variables of weir verify
	urls         []string // arguments of weir verify, for URLs that the stack does not have as outputs
	bucket       string   // with the files of the release; "" without one
	requests     int      // that weir verify sent
}

// creation is the longest time in which CloudFormation creates a stack. A cache needs the most time.
const creation = 45 * time.Minute

// deploy deploys the stack and what belongs to it, and creates an API key.
func (r *run) deploy(ctx context.Context) error {
	issuer, err := r.addIssuer(ctx)
	if err != nil {
		return fmt.Errorf("issuer: %w", err)
	}
	if r.Release != "" {
		err = r.deployRelease(ctx, issuer)
	} else {
		for _, name := range slices.Sorted(maps.Keys(issuer)) {
			r.settings = append(r.settings, "-c", strings.ToLower(name)+"="+issuer[name])
		}
		err = r.program(ctx, r.Dir, r.Log, slices.Concat(r.Deploy, r.settings))
	}
	if err != nil {
		return err
	}
	deployed, err := account.Open(ctx, r.Config, r.stack)
	if err != nil {
		return err
	}
	for _, each := range deployed.Resources() {
		switch {
		case each.Type == "AWS::DynamoDB::Table" && each.Retained:
			key, _, err := apikeys.New(dynamodb.NewFromConfig(r.Config), each.Physical).Create(ctx, time.Now(), apikeys.Key{ID: "e2e"}, false)
			if err != nil {
				return fmt.Errorf("API key: %w", err)
			}
			r.credentials = append(r.credentials, "WEIR_API_KEY="+key)
		case each.Type == "AWS::Lambda::Function" && strings.Contains(each.ID, "SigningKeys"): // its schedule would start it minutes later
			if _, err := lambda.NewFromConfig(r.Config).Invoke(ctx, &lambda.InvokeInput{FunctionName: &each.Physical}); err != nil {
				return fmt.Errorf("copy of the issuer's keys: %w", err)
			}
		}
	}
	return nil
}

// stacks are the names of the stacks, in the order of their deletion.
func (r *run) stacks() (names []string) {
	if r.Release != "" {
		names = append(names, r.appStack())
	}
	names = append(names, r.stack)
	if r.Release != "" {
		names = append(names, r.apiStack())
	}
	if r.Issuer {
		names = append(names, r.issuerStack())
	}
	return names
}

func (r *run) create(ctx context.Context, stack string, template []byte) (outputs map[string]string, err error) {
	return r.createFrom(ctx, &cloudformation.CreateStackInput{
		StackName: &stack, TemplateBody: aws.String(string(template)), Capabilities: []types.Capability{types.CapabilityCapabilityIam},
	})
}

func (r *run) createFrom(ctx context.Context, in *cloudformation.CreateStackInput) (outputs map[string]string, err error) {
	fmt.Fprintf(r.Log, "deploying the stack %s\n", *in.StackName)
	client := cloudformation.NewFromConfig(r.Config)
	if _, err := client.CreateStack(ctx, in); err != nil {
		return nil, err
	}
	out, err := cloudformation.NewStackCreateCompleteWaiter(client).WaitForOutput(ctx, &cloudformation.DescribeStacksInput{StackName: in.StackName}, creation)
	if err != nil {
		return nil, err
	}
	outputs = map[string]string{}
	for _, o := range out.Stacks[0].Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	return outputs, nil
}
