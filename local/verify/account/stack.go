package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"github.com/weir-limits/weir/local/verify"
)

// Stack is a deployed stack.
type Stack struct {
	// Name and Status are the name and the status of the stack.
	Name, Status string
	// Outputs are the outputs of the stack.
	Outputs map[string]string
	// REST and HTTP report that the run sends requests to a REST API and to an HTTP API.
	REST, HTTP bool
	// Log gets a line before each change of the stack and before the wait for CloudFormation.
	Log io.Writer
	// Wait waits between two reads of a value that AWS changes later.
	Wait func(context.Context, time.Duration) error

	template   []byte     // in JSON
	resources  []Resource // in the order of CloudFormation
	parameters map[string]string
	region     string
	config     aws.Config
	began      time.Time // the time of Open, by the clock of AWS
	err        error     // the first error of the row that Check tests; after it, the row reads nothing more
	lost       string    // the row that could not reach AWS, or whose credentials had expired
	clients

	mu   sync.Mutex
	left []string
}

type clients struct {
	formation *cloudformation.Client
	watch     *cloudwatch.Client
	logs      *cloudwatchlogs.Client
	tables    *dynamodb.Client
	functions *lambda.Client
	roles     *iam.Client
	apis      *apigateway.Client
	webs      *apigatewayv2.Client
}

// Resource is a resource of a stack.
type Resource struct {
	ID, Type, Physical, Status string
	// Retained reports that CloudFormation keeps the resource when it deletes the stack.
	Retained bool
	// Properties are the properties in the template, with intrinsic functions. The conditions that the stack shows are resolved.
	Properties map[string]any
}

// Region returns the region of the stack.
func (s *Stack) Region() string { return s.region }

// Resources returns the resources of the stack.
func (s *Stack) Resources() []Resource { return slices.Clone(s.resources) }

// Template returns a template with the resources that the stack has. The conditions that the stack shows are resolved.
func (s *Stack) Template() ([]byte, error) {
	resources := map[string]Resource{}
	for _, r := range s.resources {
		resources[r.ID] = r
	}
	return json.Marshal(map[string]any{"Resources": resources})
}

// Open reads a stack.
func Open(ctx context.Context, config aws.Config, name string) (*Stack, error) {
	s := &Stack{
		Name: name, Log: io.Discard, Wait: verify.Sleep, region: config.Region, config: config, began: time.Now(),
		clients: clients{
			cloudformation.NewFromConfig(config), cloudwatch.NewFromConfig(config, queryProtocol), cloudwatchlogs.NewFromConfig(config),
			dynamodb.NewFromConfig(config), lambda.NewFromConfig(config), iam.NewFromConfig(config),
			apigateway.NewFromConfig(config), apigatewayv2.NewFromConfig(config),
		},
	}
	if err := s.readStack(ctx); err != nil {
		return nil, err
	}
	return s, s.readResources(ctx)
}

// queryProtocol makes a client of CloudWatch use the query protocol. Emulators of AWS do not support CBOR,
// which is the default.
func queryProtocol(o *cloudwatch.Options) {
	o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801)
}

func (s *Stack) readStack(ctx context.Context) error {
	described, err := s.formation.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &s.Name})
	if err != nil {
		return fmt.Errorf("stack %s in %s: %w", s.Name, s.region, err)
	}
	if len(described.Stacks) == 0 {
		return fmt.Errorf("stack %s: not found in %s", s.Name, s.region)
	}
	if now, ok := awsmiddleware.GetServerTime(described.ResultMetadata); ok {
		s.began = now // the clock of AWS dates logs and metrics
	}
	stack := described.Stacks[0]
	s.Status, s.Outputs, s.parameters = string(stack.StackStatus), map[string]string{}, map[string]string{}
	for _, o := range stack.Outputs {
		s.Outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	for _, p := range stack.Parameters {
		s.parameters[aws.ToString(p.ParameterKey)] = aws.ToString(p.ParameterValue)
	}
	template, err := s.formation.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &s.Name, TemplateStage: "Processed"})
	if err != nil {
		return fmt.Errorf("stack %s: template: %w", s.Name, err)
	}
	s.template = []byte(aws.ToString(template.TemplateBody))
	return nil
}

// readResources joins the resources of the stack with their properties in the template.
func (s *Stack) readResources(ctx context.Context) error {
	var template struct {
		Resources map[string]struct {
			Condition, DeletionPolicy string
			Properties                map[string]any
		}
	}
	if err := json.Unmarshal(s.template, &template); err != nil {
		return fmt.Errorf("stack %s: got a template that is not JSON (%w), want the template of the CDK; name the nested stack that contains Weir", s.Name, err)
	}
	deployed := conditions{}
	for _, r := range template.Resources {
		deployed[r.Condition] = false
	}
	pages := cloudformation.NewListStackResourcesPaginator(s.formation, &cloudformation.ListStackResourcesInput{StackName: &s.Name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("stack %s: resources: %w", s.Name, err)
		}
		for _, r := range page.StackResourceSummaries {
			id := aws.ToString(r.LogicalResourceId)
			deployed[template.Resources[id].Condition] = true
			s.resources = append(s.resources, Resource{
				ID: id, Type: aws.ToString(r.ResourceType), Physical: aws.ToString(r.PhysicalResourceId), Status: string(r.ResourceStatus),
				Retained: template.Resources[id].DeletionPolicy == "Retain",
			})
		}
	}
	for i, r := range s.resources {
		s.resources[i].Properties, _ = deployed.resolve(template.Resources[r.ID].Properties).(map[string]any)
	}
	return nil
}

func (s *Stack) of(kind string) (all []Resource) {
	for _, r := range s.resources {
		if r.Type == kind {
			all = append(all, r)
		}
	}
	return all
}

func (s *Stack) find(id string) (Resource, bool) {
	for _, r := range s.resources {
		if r.ID == id {
			return r, true
		}
	}
	return Resource{}, false
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// created are the statuses of a stack or a resource that is as in the template.
var created = []string{"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}

// cleaning is the status of a stack after an update, while CloudFormation deletes replaced resources.
const cleaning = "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"

// complete tests that CloudFormation has created every resource.
func (s *Stack) complete(context.Context) verify.Observation {
	var problems []string
	for _, r := range s.resources {
		if !slices.Contains(created, r.Status) {
			problems = append(problems, r.ID+": "+r.Status)
		}
	}
	if !slices.Contains(created, s.Status) && s.Status != cleaning {
		problems = append(problems, "the stack: "+s.Status)
	}
	return verdict("a complete stack", fmt.Sprintf("%s with %d resources", s.Status, len(s.resources)), problems)
}

// Left returns one line for each change that could not be undone, with the command that undoes it.
func (s *Stack) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.left...)
}

// These constants bound the attempts to undo a change. The pause between two attempts gives a short network
// failure time to end.
const (
	undoTimeout = time.Minute
	undoTries   = 6
	undoPause   = 5 * time.Second
)

// change makes a change and returns the function that undoes it. command is the command with which a
// person undoes the change. The function that undoes the change works after the end of ctx.
func (s *Stack) change(ctx context.Context, what, command string, do, undo func(context.Context) error) (func(context.Context) error, error) {
	command += " --region " + s.region
	fmt.Fprintf(s.Log, "changing %s; if this command is killed, undo it: %s\n", what, command)
	back := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		err := undo(ctx)
		for try := 1; err != nil && try < undoTries && s.Wait(ctx, undoPause) == nil; try++ {
			err = undo(ctx)
		}
		if err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.left = append(s.left, fmt.Sprintf("%s: not undone (%v); run: %s", what, err, command))
		}
		return err
	}
	if err := do(ctx); err != nil {
		return nil, errors.Join(err, back(ctx)) // a failed call may still have had an effect
	}
	return back, nil
}
