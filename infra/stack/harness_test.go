package stack_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/infra/stack"
	"github.com/weir-limits/weir/limiter/storetest"
)

func TestMain(m *testing.M) {
	bundlesRoot = storetest.Must(os.MkdirTemp("", "weir-bundles-"))
	code := m.Run()
	jsii.Close()
	_ = os.RemoveAll(bundlesRoot)
	os.Exit(code)
}

// settings returns the default settings with bundles for tests, after changes.
func settings(t *testing.T, changes ...func(*stack.Settings)) stack.Settings {
	t.Helper()
	s, err := stack.Read([]byte("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Rules = "testdata/rules.json"
	for _, change := range changes {
		change(&s)
	}
	s.Bundles = bundles(t)[s.Architecture]
	return s
}

// bundlesRoot is a folder that TestMain removes.
var bundlesRoot string

// bundles returns the folders with the functions, by architecture. All tests share them.
func bundles(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{}
	for arch, machine := range map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64} {
		folders[arch] = filepath.Join(bundlesRoot, arch)
		for _, name := range []string{"authorizer", "handler", "log", "deploy"} {
			file := filepath.Join(folders[arch], name, "bootstrap")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, program(machine), 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folders
}

// program returns the header of a Linux executable for a machine, which is all that checkBundle
// reads.
func program(machine elf.Machine) []byte {
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	var content bytes.Buffer
	_ = binary.Write(&content, binary.LittleEndian, header) // a write to memory never fails
	return content.Bytes()
}

// elasticache and everything set the settings of the golden templates with these names.
func elasticache(s *stack.Settings) { s.Store = ratelimit.ElastiCache }

func everything(s *stack.Settings) {
	elasticache(s)
	s.Rules = "testdata/count.json"
	s.AlarmEmail = "operator@example.com"
	s.Tokens = &ratelimit.Tokens{Issuer: "https://issuer.example/", Audience: "weir", JWKS: "https://issuer.example/jwks.json"}
	s.CORSOrigins = []string{"https://app.example", "https://admin.example"}
	s.WAF, s.Variables[contract.VariableRequireCredential] = 2000, "true"
	s.ReservedConcurrency = jsii.Number(100)
	s.DecisionSample = 1000
	s.RulesFrom = "table"
	s.LogRole, s.Address = true, "hops:1"
}

// inRegions makes the stack that of us-east-1 among regions that share limits.
func inRegions(regions ...string) func(*stack.Settings) {
	return func(s *stack.Settings) { s.Regions, s.Region = regions, "us-east-1" }
}

// toKafka sends decisions to an existing cluster; the counters stay in DynamoDB.
func toKafka(s *stack.Settings) {
	s.Throttle = 2000
	s.Kafka = &ratelimit.Kafka{
		Brokers: "b-1.decisions.example:9098,b-2.decisions.example:9098", Topic: "decisions", SecurityGroup: "sg-0123456789abcdef0",
		Cluster: "arn:aws:kafka:eu-central-1:123456789012:cluster/decisions/0a1b2c3d-0000-1111-2222-333344445555-6",
		Vpc:     "vpc-0123456789abcdef0", Subnets: []string{"subnet-0123456789abcdef0", "subnet-0123456789abcdef1"},
	}
}

func cdkApp(t *testing.T) awscdk.App {
	t.Helper()
	storetest.Program(t, "node")
	content, err := os.ReadFile("../cdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Context map[string]any `json:"context"`
	}
	if err := json.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	return awscdk.NewApp(&awscdk.AppProps{Context: &config.Context, Outdir: jsii.String(t.TempDir()), AnalyticsReporting: jsii.Bool(false)})
}

var assetHash = regexp.MustCompile(`[0-9a-f]{64}`)

// synthesis is a stage's template, in which a constant replaces the hashes of assets.
type synthesis struct {
	settings stack.Settings
	template []byte
}

// syntheses has the results of synthesize, because a synthesis takes half a second.
var syntheses []synthesis

// synthesize returns the synthesis of a stage. Tests with equal settings share it.
func synthesize(t *testing.T, changes ...func(*stack.Settings)) synthesis {
	t.Helper()
	s := settings(t, changes...)
	if i := slices.IndexFunc(syntheses, func(done synthesis) bool { return reflect.DeepEqual(done.settings, s) }); i >= 0 {
		return syntheses[i]
	}
	a := cdkApp(t)
	made := stack.New(a, s)
	content, err := os.ReadFile(filepath.Join(*a.Synth(nil).Directory(), *made.TemplateFile()))
	if err != nil {
		t.Fatal(err)
	}
	var formatted bytes.Buffer
	if err := json.Indent(&formatted, assetHash.ReplaceAll(content, []byte("<asset>")), "", " "); err != nil {
		t.Fatal(err)
	}
	done := synthesis{settings: s, template: append(formatted.Bytes(), '\n')}
	syntheses = append(syntheses, done)
	return done
}

// templateOf returns the template of a stage with the default settings after changes.
func templateOf(t *testing.T, changes ...func(*stack.Settings)) template {
	t.Helper()
	return parse(t, synthesize(t, changes...).template)
}

type template struct {
	Conditions map[string]any
	Resources  map[string]resource
}

type resource struct {
	Type       string
	Properties map[string]any
	Metadata   map[string]any

	Condition, DeletionPolicy, UpdateReplacePolicy string
}

func parse(t *testing.T, content []byte) template {
	t.Helper()
	var made template
	if err := json.Unmarshal(content, &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// of returns the resources of a type, sorted by logical id.
func (m template) of(kind string) (ids []string, all []resource) {
	for _, id := range slices.Sorted(maps.Keys(m.Resources)) {
		if m.Resources[id].Type == kind {
			ids, all = append(ids, id), append(all, m.Resources[id])
		}
	}
	return ids, all
}

// one returns the only resource of a type whose id begins with prefix.
func (m template) one(t *testing.T, kind, prefix string) (id string, r resource) {
	t.Helper()
	ids, all := m.of(kind)
	for i := range ids {
		if strings.HasPrefix(ids[i], prefix) {
			if id != "" {
				t.Fatalf("%s %s*: got %s and %s, want one resource", kind, prefix, id, ids[i])
			}
			id, r = ids[i], all[i]
		}
	}
	if id == "" {
		t.Fatalf("%s %s*: got no resource, want one", kind, prefix)
	}
	return id, r
}

func text(t *testing.T, v any) string {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Each of these functions changes settings that do not depend on each other, so that tests of one of them share a synthesis.

// several changes neither the REST API nor the rate at which a new table of counters is too slow.
func several(s *stack.Settings) {
	s.AlarmEmail, s.LogRole, s.Throttle = "operator@example.com", true, 1000
	s.Variables = map[string]string{contract.VariableBasePath: "/v1,/orders/v2", contract.VariableAPIKeyHeader: "x-partner-key",
		contract.VariableForeignAPIKeys: "refuse"}
}

// inZones chooses the zones of a cache, which has no limit of writes.
func inZones(s *stack.Settings) {
	elasticache(s)
	s.Zones, s.Throttle = []string{"eu-central-1b", "eu-central-1c"}, 2000
}

// withRecords has the records that the first of several regions created.
func withRecords(s *stack.Settings) { s.Records, s.Region = "weir-dev-records", "us-east-1" }

func fromTable(s *stack.Settings) { s.Rules, s.RulesFrom = "testdata/count.json", "table" }
