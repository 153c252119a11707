package template_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/gateway/template/templatetest"
)

// Each file in testdata/bad has one defect. Its Metadata contains the lines of the expected error.
func TestParse_Bad(t *testing.T) {
	for _, path := range templatetest.Glob(t, "testdata/bad/*.json") {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			data := templatetest.Read(t, path)
			var file struct{ Metadata struct{ Want []string } }
			if err := json.Unmarshal(data, &file); err != nil || len(file.Metadata.Want) == 0 {
				t.Fatalf("expected lines in the Metadata: got none (error %v)", err)
			}
			_, err := template.Parse(data)
			if err == nil {
				t.Fatal("error: got nil, want a problem")
			}
			if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, file.Metadata.Want) {
				t.Errorf("error: got\n%s\nwant\n%s", err, strings.Join(file.Metadata.Want, "\n"))
			}
		})
	}
}

func TestParse_Good(t *testing.T) {
	for _, path := range append(templatetest.Glob(t, "testdata/good/*.json"), templatetest.Glob(t, "../../../infra/golden/*.json")...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if _, err := template.Parse(templatetest.Read(t, path)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParse_Document(t *testing.T) {
	tests := []struct{ name, document, want string }{
		{"empty", "", "template: byte 0: EOF"},
		{"list", "[]", "template: want a JSON object"},
		{"trailing data", "{} {}", "template: data after the document"},
		{"broken", `{"Resources":{]}`, "template: byte 14: invalid character ']'"},
		{"deep", `{"Resources":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "template: byte 78: nested more than 64 deep"},
		{"large", `{"Resources":"` + strings.Repeat("x", 1<<20) + `"}`, "template: got 1048592 bytes, want at most 1048576"},
		{"nothing in it", "{}", "Resources: required"},
		{"twice", `{"Metadata":{"a":[1,{"b":1,"b":2}],"a":3}}`, "Metadata.a: given twice\nMetadata.a[1].b: given twice\nResources: required"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := template.Parse([]byte(tt.document))
			if err == nil || err.Error() != tt.want {
				t.Errorf("error: got %v, want %s", err, tt.want)
			}
		})
	}
}

// The parser rejects a small template whose intrinsic functions expand to gigabytes.
func TestParse_MuchText(t *testing.T) {
	const long = 1000
	x := strings.Repeat("x", long)
	join := `{"Fn::Join":["` + x + `",[` + strings.TrimSuffix(strings.Repeat(`"",`, 9*long), ",") + `]]}`
	document := `{"Resources":{"F":{"Type":"AWS::Lambda::Function","Properties":{"Environment":{"Variables":{"V":` + join + `}}}}}}`
	_, err := template.Parse([]byte(document))
	want := "Resources.F.Properties.Environment.Variables.V: Fn::Join: result is too large"
	if err == nil || err.Error() != want {
		t.Errorf("error: got %v, want %s", err, want)
	}
}

func TestTemplate_Functions(t *testing.T) {
	got := templatetest.Parse(t, "testdata/good/cdk.json").Functions()
	want := template.Function{
		ID: "Function", Timeout: 7 * time.Second, Memory: 256,
		Environment: map[string]string{
			"CACHE": "rediss://weir-dev.elasticache.invalid:6379", "CACHE_ARN": "arn:aws:elasticache:us-east-1:123456789012:weir-dev", "USER": "weir-x",
			"RECORDS": "Records", "RECORDS_ARN": "arn:aws:dynamodb:us-east-1:123456789012:table/Records",
			"GROUP": "Group.GroupId", "TOPIC": "arn:aws:sns:us-east-1:123456789012:Topic",
			"STORE": "dynamodb", "TABLE": "local-limits-x", "WINDOW": "60", "SECOND": "b", "THIRD": "us-east-1",
			"TABLE_ARN": "arn:aws:dynamodb:us-east-1:123456789012:table/local-limits-x",
			"ROLE":      "arn:aws:iam::123456789012:role/Role",
			"LOGS":      "arn:aws:logs:us-east-1:123456789012:log-group:Logs:*",
			"SUB":       "123456789012/x/${Kept}/arn:aws:dynamodb:us-east-1:123456789012:table/local-limits-x",
		},
	}
	if len(got) != 1 {
		t.Fatalf("functions: got %d, want 1", len(got))
	}
	if got[0].ID != want.ID || got[0].Timeout != want.Timeout || got[0].Memory != want.Memory {
		t.Errorf("function: got %+v, want %+v", got[0], want)
	}
	if !reflect.DeepEqual(got[0].Environment, want.Environment) {
		t.Errorf("environment\ngot  %v\nwant %v", got[0].Environment, want.Environment)
	}
}

func TestTemplate_Functions_Defaults(t *testing.T) {
	for _, f := range templatetest.Parse(t, "testdata/good/responses.json").Functions() {
		if f.Timeout != 3*time.Second || f.Memory != 128 || f.Environment != nil {
			t.Errorf("defaults: got %+v, want 3s, 128 MB and no environment", f)
		}
	}
}

func TestTemplate_Functions_Sample(t *testing.T) {
	want := map[string]time.Duration{"AuthorizerFunction": 5 * time.Second, "HandlerFunction": 10 * time.Second}
	got := map[string]time.Duration{}
	for _, f := range templatetest.Parse(t, "testdata/good/sample.json").Functions() {
		got[f.ID] = f.Timeout
		environment := map[string]string{"STORE": "dynamodb", "TABLE": "Table", "NAMESPACE": "dev"}
		if !reflect.DeepEqual(f.Environment, environment) || f.Memory != 512 {
			t.Errorf("%s: got %v and %d MB, want %v and 512", f.ID, f.Environment, f.Memory, environment)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("timeouts of the functions: got %v, want %v", got, want)
	}
}
