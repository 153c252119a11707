package prove

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

// Prover proves one deployment.
type Prover struct {
	Config aws.Config
	// Deploy is the command that deploys a stack. Run appends the settings as -c key=value. Verify is the
	// command weir verify, to which Run appends the stack.
	Deploy, Verify []string
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
func (p *Prover) Run(ctx context.Context, store string) error {
	stage := "prove-" + strings.ToLower(rand.Text()[:6])
	stack := "Weir-" + stage
	settings := []string{"-c", "stage=" + stage, "-c", "store=" + store}
	role, err := p.logRole(ctx)
	if err != nil {
		return err
	}
	if role != "" { // the account has a role for API Gateway's logs, which the stack would replace
		settings = append(settings, "-c", "keepLogRole=true")
	}
	fmt.Fprintf(p.Log, "deploying the stack %s in %s\nif this command is killed, delete the stack: %s\n", stack, p.Config.Region, p.deleteCommand(stack))
	started := time.Now()
	failed := p.program(ctx, p.Dir, p.Log, slices.Concat(p.Deploy, settings))
	if failed != nil {
		failed = fmt.Errorf("deployment of %s: %w", stack, failed)
	}
	var requests int
	if failed == nil {
		requests, failed = p.verify(ctx, stack)
	}
	if failed == nil && ctx.Err() != nil {
		failed = ctx.Err()
	}
	// The deletion goes on after an interrupt. A second interrupt ends the process.
	left := p.remove(context.WithoutCancel(ctx), stack, store, requests, started, role == "")
	return errors.Join(failed, left)
}

// Check makes the first call of Run, which changes nothing. It fails if the credentials are not valid in the region.
func (p *Prover) Check(ctx context.Context) error {
	_, err := p.logRole(ctx)
	return err
}

// logRole returns the role of the account for API Gateway's logs, or "".
func (p *Prover) logRole(ctx context.Context) (string, error) {
	out, err := apigateway.NewFromConfig(p.Config).GetAccount(ctx, &apigateway.GetAccountInput{})
	if err != nil {
		return "", fmt.Errorf("API Gateway: %w", err)
	}
	return aws.ToString(out.CloudwatchRoleArn), nil
}

// verify runs weir verify, and returns the number of requests that it sent.
func (p *Prover) verify(ctx context.Context, stack string) (requests int, err error) {
	args := slices.Concat(p.Verify, []string{"--stack", stack, "--region", p.Config.Region, "--write", "--json"})
	if p.Report != "" {
		args = append(args, "--report", p.Report)
	}
	var out bytes.Buffer
	err = p.program(ctx, "", &out, args)
	var result struct{ Passed, Failed, Skipped, Requests int }
	if problem := json.Unmarshal(out.Bytes(), &result); problem != nil {
		err = cmp.Or(err, fmt.Errorf("result: %w", problem))
	} else {
		fmt.Fprintf(p.Out, "%s: %d rows passed, %d failed, %d skipped\n", stack, result.Passed, result.Failed, result.Skipped)
	}
	if err != nil {
		err = fmt.Errorf("verification of %s: %w", stack, err)
	}
	return result.Requests, err
}

// program runs a program until it ends. If ctx ends, the program gets an interrupt. It has a process group of
// its own: otherwise Ctrl-C would interrupt it twice, and a second interrupt ends weir at once.
func (p *Prover) program(ctx context.Context, dir string, out io.Writer, argv []string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = dir, out, p.Log, interruptDelay
	c.Env = append(os.Environ(), "AWS_REGION="+p.Config.Region)
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

func (p *Prover) deleteCommand(stack string) string {
	return fmt.Sprintf("aws cloudformation delete-stack --region %s --stack-name %s", p.Config.Region, stack)
}

// remove deletes the stack and what CloudFormation retains, and prints the cost. newRole reports that the stack
// created the role for API Gateway's logs.
func (p *Prover) remove(ctx context.Context, stack, store string, requests int, started time.Time, newRole bool) error {
	deployed, err := account.Open(ctx, p.Config, stack)
	if missing(err) {
		fmt.Fprintf(p.Log, "the stack %s does not exist\n", stack)
		return nil
	}
	r := remover{Prover: p}
	var template []byte
	if err != nil {
		r.left = append(r.left, fmt.Sprintf("what CloudFormation retains of %s (%v); find it: aws dynamodb list-tables --region %s; aws iam list-roles", stack, err, p.Config.Region))
	} else {
		r.resources, template = deployed.Resources(), deployed.Template
	}
	fmt.Fprintf(p.Log, "deleting the stack %s, which takes minutes, and up to an hour with ElastiCache\n", stack)
	r.remove(ctx, stack)
	estimate(store, requests, time.Since(started), template).print(p.Out)
	for _, kept := range keeps(store, newRole) {
		fmt.Fprintln(p.Out, "not deleted:", kept)
	}
	for _, line := range r.left {
		fmt.Fprintln(p.Out, "left:", line)
	}
	if len(r.left) > 0 {
		return fmt.Errorf("%s: not everything is deleted; run the commands above", stack)
	}
	fmt.Fprintf(p.Out, "%s: deleted\n", stack)
	return nil
}
