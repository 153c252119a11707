package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/weir-limits/weir/local/lab/e2e"
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
	if err := record(program); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
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

// record writes the arguments of a program and its credentials into a file of the test.
func record(program string) error {
	line := strings.Join(append(os.Args[1:], "WEIR_TOKEN="+os.Getenv("WEIR_TOKEN"), "WEIR_API_KEY="+os.Getenv("WEIR_API_KEY")), " ")
	return os.WriteFile(filepath.Join(os.Getenv("WEIR_STAND_IN_FOLDER"), program), []byte(line), 0o600)
}

// logRole is what the setting logRole adds to the resources of a stack.
const logRole = `
"RestCloudWatchRole": {"Type": "AWS::IAM::Role", "DeletionPolicy": "Retain", "Properties": {
	"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "apigateway.amazonaws.com"}, "Action": "sts:AssumeRole"}]},
	"ManagedPolicyArns": ["arn:aws:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"]
}},
"RestAccount": {"Type": "AWS::ApiGateway::Account", "DeletionPolicy": "Retain", "Properties": {"CloudWatchRoleArn": {"Fn::GetAtt": ["RestCloudWatchRole", "Arn"]}}},`

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
	if slices.Contains(os.Args, "logRole=true") {
		template = bytes.Replace(template, []byte(`"Resources": {`), []byte(`"Resources": {`+logRole), 1)
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	_, err = cloudformation.NewFromConfig(settings).CreateStack(ctx, &cloudformation.CreateStackInput{StackName: aws.String("Weir-" + stage), TemplateBody: aws.String(strings.ReplaceAll(string(template), "weir-dev", "weir-"+stage))})
	return err
}

// run tests a deployment in an account, with stand-ins.
func run(ctx context.Context, t *testing.T, c *cloud, mode string) (out, log string, err error) {
	t.Helper()
	return runOf(ctx, t, c, mode, "dynamodb", &e2e.Runner{Issuer: true})
}

func runOf(ctx context.Context, t *testing.T, c *cloud, mode, golden string, p *e2e.Runner) (out, log string, err error) {
	t.Helper()
	template, err := filepath.Abs("../../../infra/golden/" + golden + ".template.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range c.environment() {
		t.Setenv(name, value)
	}
	t.Setenv("WEIR_STAND_IN", mode)
	t.Setenv("WEIR_STAND_IN_TEMPLATE", template)
	if os.Getenv("WEIR_STAND_IN_FOLDER") == "" {
		t.Setenv("WEIR_STAND_IN_FOLDER", t.TempDir())
	}
	var o, l bytes.Buffer
	p.Config, p.Deploy, p.Verify, p.Dir, p.Out, p.Log = c.config(), []string{os.Args[0], "deploy"}, []string{os.Args[0], "verify"}, t.TempDir(), &o, &l
	p.Wait = func(context.Context, time.Duration) error { return nil }
	err = p.Run(ctx, "dynamodb")
	return o.String(), l.String(), err
}

// remains describes what exists in an account.
func remains(t *testing.T, c *cloud) (all []string) {
	t.Helper()
	tables, err := dynamodb.NewFromConfig(c.config()).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	roles, err := iam.NewFromConfig(c.config()).ListRoles(t.Context(), &iam.ListRolesInput{})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, tables.TableNames...)
	for _, r := range roles.Roles {
		all = append(all, aws.ToString(r.RoleName))
	}
	for range c.count() {
		all = append(all, "a stack")
	}
	buckets, err := s3.NewFromConfig(c.config()).ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range buckets.Buckets {
		all = append(all, aws.ToString(b.Name))
	}
	return all
}

// Nothing remains after any end of any step.
func TestRunner_Run(t *testing.T) {
	for _, step := range []struct {
		mode, fails string
		interrupt   string // action at which the run is interrupted
		late        bool   // only after DeleteStack
	}{
		{mode: "deploy:ok"},
		{mode: "deploy:early", fails: "deployment of Weir-e2e-"},
		{mode: "deploy:fail", fails: "deployment of Weir-e2e-"},
		{mode: "verify:fail", fails: "verification of Weir-e2e-"},
		{mode: "deploy:hang", interrupt: "GET /hangs/deploy", fails: "deployment of Weir-e2e-"},
		{mode: "verify:hang", interrupt: "GET /hangs/verify", fails: "verification of Weir-e2e-"},
		{mode: "deploy:ok", interrupt: "CreateStack", fails: "Weir-e2e-"},
		{mode: "deploy:ok", interrupt: "DeleteStack"},
		{mode: "deploy:ok", interrupt: "POST /", fails: "deployment of Weir-e2e-"}, // the creation of the API key
		{mode: "deploy:ok", interrupt: "POST /", late: true},                       // the deletion of the tables
	} {
		t.Run(step.mode+" "+step.interrupt, func(t *testing.T) {
			c := newCloud(t)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			c.onCall(func(action string) string {
				if action == step.interrupt && (!step.late || c.called("DeleteStack") > 0) {
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
			if !strings.Contains(log, "aws cloudformation delete-stack --region us-east-1 --stack-name Weir-e2e-") {
				t.Errorf("log: got %s, want the command that deletes the stack", log)
			}
			if step.fails == "" && (!strings.Contains(out, "40 rows passed, 0 failed, 9 skipped") || !strings.Contains(out, "estimated cost") || !strings.Contains(out, ": deleted\n") || !strings.Contains(out, "a backup of the records table") || !strings.Contains(out, "/aws/apigateway/welcome")) {
				t.Errorf("output: got %s, want the totals, the cost, the deletion, and what AWS keeps", out)
			}
		})
	}
}

// Verification gets a token of the issuer and an API key, which no argument shows. The deployment gets the URL of the
// issuer's keys.
func TestRunner_Run_credentials(t *testing.T) {
	c, folder := newCloud(t), t.TempDir()
	t.Setenv("WEIR_STAND_IN_FOLDER", folder)
	if out, log, err := run(t.Context(), t, c, "deploy:ok"); err != nil {
		t.Fatalf("got error %v, want none; %s%s", err, out, log)
	}
	for program, want := range map[string]string{
		"deploy": `^deploy -c stage=e2e-\w+ -c store=dynamodb -c logRole=true -c audience=weir-e2e -c issuer=https://weir-e2e.invalid -c jwks=https://\w+\.execute-api\.us-east-1\.[a-z.]+/keys WEIR_TOKEN= WEIR_API_KEY=$`,
		"verify": `^verify --stack Weir-e2e-\w+ --region us-east-1 --write --json WEIR_TOKEN=\S+\.\S+\.\S+ WEIR_API_KEY=weir_\S{48}$`,
	} {
		got, err := os.ReadFile(filepath.Join(folder, program))
		if err != nil || !regexp.MustCompile(want).Match(got) {
			t.Errorf("%s: got %s, %v, want %s", program, got, err, want)
		}
	}
	if _, log, err := runOf(t.Context(), t, c, "deploy:ok", "dynamodb", &e2e.Runner{}); err != nil || strings.Contains(log, "-issuer") {
		t.Errorf("without an issuer: got error %v, log %s, want no stack of an issuer", err, log)
	}
	// Functions in a network read a copy of the keys, which one function makes.
	denied := ""
	c.onCall(func(action string) string {
		if strings.HasSuffix(action, "/invocations") {
			denied = action
			return "AccessDenied"
		}
		return ""
	})
	_, _, err := runOf(t.Context(), t, c, "deploy:ok", "everything", &e2e.Runner{Issuer: true})
	if err == nil || !strings.Contains(err.Error(), "copy of the issuer's keys") || !strings.Contains(denied, "SigningKeys") || c.count() > 0 {
		t.Errorf("a copy that fails: got error %v, call %s and %d stacks, want the error and nothing left", err, denied, c.count())
	}
}

// The template of a release is deployed with an API, a function with the layer, an issuer and a subscription of the
// access log. Nothing remains, also after an interrupt during any of its stacks.
func TestRunner_Run_release(t *testing.T) {
	release := t.TempDir()
	template, err := os.ReadFile("../../../infra/standalone/weir.template.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"weir.template.json": template, "layer-arm64.zip": []byte("zip"), "authorizer_arm64.zip": []byte("zip"), "authorizer_x86_64.zip": []byte("zip")} {
		if err := os.WriteFile(filepath.Join(release, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runner := func() *e2e.Runner { return &e2e.Runner{Issuer: true, Release: release, Rules: "rules.json"} }
	for interrupted := range 5 { // the stack at whose creation the run is interrupted; 0 for none
		c := newCloud(t)
		folder := t.TempDir()
		t.Setenv("WEIR_STAND_IN_FOLDER", folder)
		ctx, interrupt := context.WithCancel(t.Context())
		uploaded := 0
		c.onCall(func(action string) string {
			if strings.HasPrefix(action, "PUT /weir-e2e-") && strings.Contains(action, "/weir/") {
				uploaded++
			}
			if action == "CreateStack" && c.called(action) == interrupted {
				interrupt()
			}
			return ""
		})
		out, log, err := runOf(ctx, t, c, "deploy:fail", "dynamodb", runner())
		interrupt()
		if (err != nil) != (interrupted > 0) {
			t.Errorf("interrupt at stack %d: got error %v; %s%s", interrupted, err, out, log)
		}
		if got := remains(t, c); len(got) > 0 {
			t.Errorf("interrupt at stack %d: got %v, want nothing; %s%s", interrupted, got, out, log)
		}
		if interrupted > 0 {
			continue
		}
		if uploaded != 3 || c.called("CreateStack") != 4 {
			t.Errorf("got %d files and %d stacks, want the template, two archives and four stacks", uploaded, c.called("CreateStack"))
		}
		got, err := os.ReadFile(filepath.Join(folder, "verify"))
		if want := `--json --url https://\S+\.execute-api\.us-east-1\.\S*/e2e --layer-url \S+ WEIR_TOKEN=\S+ WEIR_API_KEY=weir_\S{48}$`; err != nil || !regexp.MustCompile(want).Match(got) {
			t.Errorf("verify: got %s, %v, want %s", got, err, want)
		}
	}
	p := runner()
	p.Release = t.TempDir()
	if _, _, err := runOf(t.Context(), t, newCloud(t), "deploy:fail", "dynamodb", p); err == nil || !strings.Contains(err.Error(), "run make release") {
		t.Errorf("without a release: got error %v, want make release", err)
	}
}

// What cannot be deleted is named with its command.
func TestRunner_Run_left(t *testing.T) {
	account := newCloud(t)
	for _, c := range []struct {
		denied string
		stuck  bool
		want   []string
	}{
		{denied: "DeleteStack", want: []string{"run: aws cloudformation delete-stack --region us-east-1 --stack-name Weir-e2e-"}},
		{denied: "DeleteRole", want: []string{"left: AWS::IAM::Role ", "aws iam delete-role --role-name "}},
		{denied: "POST /", want: []string{"left: AWS::DynamoDB::Table ", "aws dynamodb delete-table --region us-east-1 --table-name "}},
		{stuck: true, want: []string{"left: the stack Weir-e2e-", "run: aws cloudformation delete-stack"}},
	} {
		t.Run(c.denied, func(t *testing.T) {
			account.deny(c.denied)
			if c.stuck {
				account.stick()
			}
			out, log, err := runOf(t.Context(), t, account, "deploy:ok", "dynamodb", &e2e.Runner{})
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
	account.deny("GetTemplate")
	if out, _, err := runOf(t.Context(), t, account, "deploy:ok", "dynamodb", &e2e.Runner{}); err == nil || !strings.Contains(out, "left: what CloudFormation retains of Weir-e2e-") || account.count() > 4 {
		t.Errorf("unreadable stack: got error %v, %d stacks, %s, want it deleted and the command for the rest", err, account.count(), out)
	}
	account.deny("GET /account")
	if err := (&e2e.Runner{Config: account.config()}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "API Gateway") {
		t.Errorf("check without permissions: got error %v, want that of API Gateway", err)
	}
	if _, log, err := runOf(t.Context(), t, account, "deploy:ok", "dynamodb", &e2e.Runner{}); err == nil || strings.Contains(log, "deploying") {
		t.Errorf("no permissions: got error %v, log %s, want an error before the deployment", err, log)
	}
}

// The prices are those of the page about costs, and a run costs less than a dollar.
func TestPrices(t *testing.T) {
	page, err := os.ReadFile("../../../infra/COSTS.md")
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
	c := newCloud(t)
	out, _, err := run(t.Context(), t, c, "deploy:ok")
	if err != nil || !regexp.MustCompile(`estimated cost, .*: \$0\.\d\d\n`).MatchString(out) {
		t.Errorf("cost: got %s, %v; want less than a dollar", out, err)
	}
}
