package prove_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/weir-limits/weir/local/prove"
	"github.com/weir-limits/weir/local/verify/account/accounttest"
)

// TestMain lets the tests start this program in place of the CDK and of weir.
func TestMain(m *testing.M) {
	if mode := os.Getenv("WEIR_STAND_IN"); mode != "" && len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(standIn(os.Args[1], mode))
	}
	m.Run()
}

// standIn is one run of a program. mode lists what happens, such as "deploy:fail,verify:hang".
func standIn(program, mode string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	what := map[string]string{}
	for each := range strings.SplitSeq(mode, ",") {
		name, how, _ := strings.Cut(each, ":")
		what[name] = how
	}
	how := what[program]
	if program == "deploy" && how != "early" {
		if err := createStack(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	if how == "hang" {
		// The test sees this request, and interrupts.
		if r, err := http.Get(os.Getenv("AWS_ENDPOINT_URL") + "/hangs/" + program); err == nil { //nolint:noctx // the program waits for an interrupt below
			_ = r.Body.Close()
		}
		<-ctx.Done()
		return 130
	}
	if program == "verify" {
		fmt.Print(`{"passed": 40, "failed": 0, "skipped": 9, "requests": 250}`)
	}
	if how == "fail" || how == "early" {
		return 1
	}
	return 0
}

// createStack does what the CDK does: it creates the stack of the stage.
func createStack(ctx context.Context) error {
	var stage string
	for _, arg := range os.Args {
		if value, ok := strings.CutPrefix(arg, "stage="); ok {
			stage = value
		}
	}
	template, err := os.ReadFile(os.Getenv("WEIR_STAND_IN_TEMPLATE"))
	if err != nil {
		return err
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	_, err = cloudformation.NewFromConfig(settings).CreateStack(ctx, &cloudformation.CreateStackInput{StackName: aws.String("Weir-" + stage), TemplateBody: aws.String(strings.ReplaceAll(string(template), "weir-dev", "weir-"+stage))})
	return err
}

// run proves a deployment in an account, with stand-ins.
func run(ctx context.Context, t *testing.T, c *accounttest.Cloud, mode string) (out, log string, err error) {
	t.Helper()
	template, err := filepath.Abs("../../infra/golden/dynamodb.template.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range c.Environment() {
		t.Setenv(name, value)
	}
	t.Setenv("WEIR_STAND_IN", mode)
	t.Setenv("WEIR_STAND_IN_TEMPLATE", template)
	var o, l bytes.Buffer
	p := &prove.Prover{
		Config: c.Config(), Deploy: []string{os.Args[0], "deploy"}, Verify: []string{os.Args[0], "verify"}, Dir: t.TempDir(), Out: &o, Log: &l,
		Wait: func(context.Context, time.Duration) error { return nil },
	}
	err = p.Run(ctx, "dynamodb")
	return o.String(), l.String(), err
}

// remains describes what exists in an account.
func remains(t *testing.T, c *accounttest.Cloud) (all []string) {
	t.Helper()
	tables, err := dynamodb.NewFromConfig(c.Config()).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	roles, err := iam.NewFromConfig(c.Config()).ListRoles(t.Context(), &iam.ListRolesInput{})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, tables.TableNames...)
	for _, r := range roles.Roles {
		all = append(all, aws.ToString(r.RoleName))
	}
	for range c.Stacks() {
		all = append(all, "a stack")
	}
	return all
}

// Nothing remains after any end of any step.
func TestProver_Run(t *testing.T) {
	for _, step := range []struct {
		mode, fails string
		interrupt   string // action at which the run is interrupted
	}{
		{mode: "deploy:ok"},
		{mode: "deploy:early", fails: "deployment of Weir-prove-"},
		{mode: "deploy:fail", fails: "deployment of Weir-prove-"},
		{mode: "verify:fail", fails: "verification of Weir-prove-"},
		{mode: "deploy:hang", interrupt: "GET /hangs/deploy", fails: "deployment of Weir-prove-"},
		{mode: "verify:hang", interrupt: "GET /hangs/verify", fails: "verification of Weir-prove-"},
		{mode: "deploy:ok", interrupt: "CreateStack", fails: "Weir-prove-"},
		{mode: "deploy:ok", interrupt: "DeleteStack"},
		{mode: "deploy:ok", interrupt: "POST /"}, // the deletion of the tables
	} {
		t.Run(step.mode+" "+step.interrupt, func(t *testing.T) {
			c := accounttest.Start(t)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			c.OnCall(func(action string) string {
				if action == step.interrupt {
					interrupt()
				}
				return ""
			})
			out, log, err := run(ctx, t, c, step.mode)
			if step.interrupt != "" && ctx.Err() == nil {
				t.Errorf("got no call %s, want one", step.interrupt)
			}
			if (err == nil) != (step.fails == "") || err != nil && !strings.Contains(err.Error(), step.fails) {
				t.Errorf("got error %v, want %q; %s%s", err, step.fails, out, log)
			}
			if got := remains(t, c); len(got) > 0 {
				t.Errorf("remains: got %v, want nothing; %s%s", got, out, log)
			}
			if !strings.Contains(log, "aws cloudformation delete-stack --region us-east-1 --stack-name Weir-prove-") {
				t.Errorf("log: got %s, want the command that deletes the stack", log)
			}
			if step.fails == "" && (!strings.Contains(out, "40 rows passed, 0 failed, 9 skipped") || !strings.Contains(out, "estimated cost") || !strings.Contains(out, ": deleted\n") || !strings.Contains(out, "a backup of the records table") || !strings.Contains(out, "/aws/apigateway/welcome")) {
				t.Errorf("output: got %s, want the totals, the cost, the deletion, and what AWS keeps", out)
			}
		})
	}
}

// What cannot be deleted is named with its command.
func TestProver_Run_left(t *testing.T) {
	cloud := accounttest.Start(t)
	for _, c := range []struct {
		denied string
		stuck  bool
		want   []string
	}{
		{denied: "DeleteStack", want: []string{"run: aws cloudformation delete-stack --region us-east-1 --stack-name Weir-prove-"}},
		{denied: "DeleteRole", want: []string{"left: AWS::IAM::Role ", "aws iam delete-role --role-name "}},
		{denied: "POST /", want: []string{"left: AWS::DynamoDB::Table ", "aws dynamodb delete-table --region us-east-1 --table-name "}},
		{stuck: true, want: []string{"left: the stack Weir-prove-", "run: aws cloudformation delete-stack"}},
	} {
		t.Run(c.denied, func(t *testing.T) {
			cloud.Deny(c.denied)
			if c.stuck {
				cloud.Stick()
			}
			out, log, err := run(t.Context(), t, cloud, "deploy:ok")
			if err == nil || !strings.Contains(err.Error(), "not everything is deleted") {
				t.Errorf("got error %v, want one; %s", err, log)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("output: got %s, want %q", out, want)
				}
			}
		})
	}
	cloud.Deny("GetTemplate")
	if out, _, err := run(t.Context(), t, cloud, "deploy:ok"); err == nil || !strings.Contains(out, "left: what CloudFormation retains of Weir-prove-") || cloud.Stacks() > 4 {
		t.Errorf("unreadable stack: got error %v, %d stacks, %s, want it deleted and the command for the rest", err, cloud.Stacks(), out)
	}
	cloud.Deny("GET /account")
	if err := (&prove.Prover{Config: cloud.Config()}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "API Gateway") {
		t.Errorf("check without permissions: got error %v, want that of API Gateway", err)
	}
	if _, log, err := run(t.Context(), t, cloud, "deploy:ok"); err == nil || strings.Contains(log, "deploying") {
		t.Errorf("no permissions: got error %v, log %s, want an error before the deployment", err, log)
	}
}

// The prices are those of the page about costs, and a run costs less than a dollar.
func TestPrices(t *testing.T) {
	page, err := os.ReadFile("../../infra/COSTS.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("cost.go")
	if err != nil {
		t.Fatal(err)
	}
	prices := regexp.MustCompile(`(?m)^\tprice\w+ += ([0-9.]+)`).FindAllStringSubmatch(string(source), -1)
	if len(prices) != 8 {
		t.Fatalf("prices: got %d, want 8", len(prices))
	}
	for _, p := range prices {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(p[1]) + `\b`).Match(page) {
			t.Errorf("COSTS.md: got no price %s, want it", p[1])
		}
	}
	c := accounttest.Start(t)
	out, _, err := run(t.Context(), t, c, "deploy:ok")
	if err != nil || !regexp.MustCompile(`estimated cost, .*: \$0\.\d\d\n`).MatchString(out) {
		t.Errorf("cost: got %s, %v; want less than a dollar", out, err)
	}
}
