package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"

	"github.com/weir-limits/weir/local/verify/account"
)

// Runner tests one deployment.
type Runner struct {
	Config aws.Config
	// Deploy is the command that deploys a stack. Run appends the settings as -c key=value. Verify is the
	// command weir verify, to which Run appends the stack.
	Deploy, Verify []string
	// Issuer deploys an issuer of tokens too, in a stack of its own.
	Issuer bool
	// Release, if not empty, is the folder of a release. Run then deploys its template instead of Deploy, with an API and
	// a function with the layer, and publishes Rules.
	Release, Rules string
	// Dir is the folder in which Deploy runs.
	Dir string
	// Report, if not empty, is the file for the report.
	Report string
	// Out gets the result, and Log the progress.
	Out, Log io.Writer
	// Wait waits between two looks at something that AWS deletes. nil means a wait in real time.
	Wait func(context.Context, time.Duration) error
}

// Stores are the valid stores.
func Stores() []string { return []string{"dynamodb", "elasticache"} }

// interruptDelay is the time in which a program ends after an interrupt.
const interruptDelay = time.Minute

// Run deploys a stack with a store, verifies it, prints its estimated cost and deletes it.
func (p *Runner) Run(ctx context.Context, store string) error {
	stage := "e2e-" + strings.ToLower(rand.Text()[:6])
	r := &run{Runner: p, stack: "Weir-" + stage, store: store, settings: []string{"-c", "stage=" + stage, "-c", "store=" + store}}
	role, err := LogRole(ctx, p.Config)
	if err != nil {
		return err
	}
	if r.newRole = role == ""; r.newRole { // without a role, API Gateway rejects a stage with an access log
		r.settings = append(r.settings, "-c", "logRole=true")
	}
	fmt.Fprintf(p.Log, "deploying the stack %s in %s\n", r.stack, p.Config.Region)
	if p.Release != "" {
		r.bucket = "weir-" + stage + "-" + strings.ToLower(rand.Text()[:10]) // the names of all accounts' buckets differ
	}
	for _, stack := range r.stacks() {
		fmt.Fprintf(p.Log, "if this command is killed, delete the stack: %s\n", p.deleteCommand(stack))
	}
	if r.bucket != "" {
		fmt.Fprintf(p.Log, "and the bucket: %s\n", r.bucketCommand())
	}
	started := time.Now()
	failed := r.deploy(ctx)
	if failed != nil {
		failed = fmt.Errorf("deployment of %s: %w", r.stack, failed)
	} else {
		failed = r.verify(ctx)
	}
	if failed == nil && ctx.Err() != nil {
		failed = ctx.Err()
	}
	// The deletion goes on after an interrupt. A second interrupt ends the process.
	left := r.remove(context.WithoutCancel(ctx), started)
	return errors.Join(failed, left)
}

// Check makes the same first call as Run. This call changes nothing. It fails if the credentials are not valid in the
// region.
func (p *Runner) Check(ctx context.Context) error {
	_, err := LogRole(ctx, p.Config)
	return err
}

// LogRole returns the role of the account for API Gateway's logs, or "".
func LogRole(ctx context.Context, c aws.Config) (string, error) {
	out, err := apigateway.NewFromConfig(c).GetAccount(ctx, &apigateway.GetAccountInput{})
	if err != nil {
		return "", fmt.Errorf("API Gateway: %w", err)
	}
	return aws.ToString(out.CloudwatchRoleArn), nil
}

// verify runs weir verify with the credentials.
func (r *run) verify(ctx context.Context) error {
	args := slices.Concat(r.Verify, []string{"--stack", r.stack, "--region", r.Config.Region, "--write", "--json"}, r.urls)
	if r.Report != "" {
		args = append(args, "--report", r.Report)
	}
	var out bytes.Buffer
	err := r.program(ctx, "", &out, args, r.credentials...)
	var result struct{ Passed, Failed, Skipped, Requests int }
	if problem := json.Unmarshal(out.Bytes(), &result); problem != nil {
		err = cmp.Or(err, fmt.Errorf("result: %w", problem))
	} else {
		fmt.Fprintf(r.Out, "%s: %d rows passed, %d failed, %d skipped\n", r.stack, result.Passed, result.Failed, result.Skipped)
	}
	r.requests = result.Requests
	if err != nil {
		err = fmt.Errorf("verification of %s: %w", r.stack, err)
	}
	return err
}

// program runs a program until it ends. If ctx ends, the program gets an interrupt. It has a process group of
// its own: otherwise Ctrl-C would interrupt it twice, and a second interrupt ends weir at once.
func (p *Runner) program(ctx context.Context, dir string, out io.Writer, argv []string, variables ...string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = dir, out, p.Log, interruptDelay
	c.Env = slices.Concat(os.Environ(), []string{"AWS_REGION=" + p.Config.Region}, variables)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// keeps returns what AWS keeps of a deleted stack. newRole reports that the stack created the role for API Gateway's
// logs.
func keeps(store string, newRole bool) []string {
	all := []string{
		"the code of the functions in the bucket of the CDK, below $0.001 a month (npx cdk gc deletes it)",
		"the metrics of the stack, which are free and expire after 15 months",
		"a backup of the records table, which DynamoDB makes because the table had point-in-time recovery; it is free and expires after 35 days",
	}
	if newRole {
		all = append(all, "the log group /aws/apigateway/welcome, which API Gateway creates for the role; it has one line (aws logs delete-log-group --log-group-name /aws/apigateway/welcome)")
	}
	if store == "elasticache" {
		all = append(all, "the service-linked role AWSServiceRoleForElastiCache, which ElastiCache creates for the first cache of an account; it is free")
	}
	return all
}

func (p *Runner) deleteCommand(stack string) string {
	return fmt.Sprintf("aws cloudformation delete-stack --region %s --stack-name %s", p.Config.Region, stack)
}

// remove deletes the stacks and what CloudFormation retains, and prints the cost.
func (r *run) remove(ctx context.Context, started time.Time) error {
	existed, resources, left := false, []account.Resource(nil), []string(nil)
	for _, stack := range r.stacks() {
		d := remover{Runner: r.Runner}
		deployed, err := account.Open(ctx, r.Config, stack)
		if missing(err) {
			fmt.Fprintf(r.Log, "the stack %s does not exist\n", stack)
			continue
		}
		existed = true
		if err != nil {
			d.left = append(d.left, fmt.Sprintf("what CloudFormation retains of %s (%v); find it: aws dynamodb list-tables --region %s; aws iam list-roles", stack, err, r.Config.Region))
		} else if d.resources = deployed.Resources(); stack == r.stack {
			resources = d.resources
		}
		fmt.Fprintf(r.Log, "deleting the stack %s, which takes minutes, and up to an hour with ElastiCache\n", stack)
		d.remove(ctx, stack)
		left = append(left, d.left...)
	}
	if r.bucket != "" {
		if err := r.removeBucket(ctx); err != nil {
			left = append(left, fmt.Sprintf("the bucket %s (%v); run: %s", r.bucket, err, r.bucketCommand()))
		}
	}
	if !existed && len(left) == 0 {
		return nil
	}
	estimate(r.store, r.requests, time.Since(started), resources).print(r.Out)
	for _, kept := range keeps(r.store, r.newRole) {
		fmt.Fprintln(r.Out, "not deleted:", kept)
	}
	for _, line := range left {
		fmt.Fprintln(r.Out, "left:", line)
	}
	if len(left) > 0 {
		return fmt.Errorf("%s: not everything is deleted; run the commands above", r.stack)
	}
	fmt.Fprintf(r.Out, "%s: deleted\n", r.stack)
	return nil
}
