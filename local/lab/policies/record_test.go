package policies_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/weir-limits/weir/functions/apikeys"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/receipts"
	"github.com/weir-limits/weir/functions/records/recordstest"
	"github.com/weir-limits/weir/functions/runtimeproxy"
	"github.com/weir-limits/weir/functions/sample"
	"github.com/weir-limits/weir/functions/sinks/keyvalues"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/storetest"
	"github.com/weir-limits/weir/local/gateway/template"
	"github.com/weir-limits/weir/local/lambdaenv"
)

// TestMain runs this binary as a Lambda function if a test started it as one.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == filepath.Base(contract.LayerExtension) {
		runtimeproxy.Start(boot.Layer(os.LookupEnv, boot.Clients{DynamoDB: dynamostore.Open}))
		return
	}
	switch os.Getenv("WEIR_FUNCTION") {
	case contract.Extension: // stands for the user's function, which the wrapper script starts
		_, port, _ := strings.Cut(os.Getenv(contract.VariableRuntimeAPI), ":")
		_ = os.Setenv(contract.VariableRuntimeAPI, contract.LayerHost+":"+port)
		lambda.Start(func() (map[string]any, error) { return map[string]any{"statusCode": http.StatusOK}, nil })
	case contract.Authorizer:
		boot.Start(lambdahttp.NewAuthorizer, boot.Clients{DynamoDB: dynamostore.Open})
	case contract.Handler:
		boot.Start(func(e *lambdahttp.Environment) lambda.Handler { return lambdahttp.NewHandler(e, sample.New(e)) }, boot.Clients{DynamoDB: dynamostore.Open})
	case contract.Forward:
		boot.StartForward(boot.Clients{DynamoDB: dynamostore.Open, List: keyvalues.Open})
	case contract.SigningKeys:
		boot.StartSigningKeys()
	case contract.Publisher:
		boot.StartPublisher(boot.Clients{List: keyvalues.Open})
	default:
		os.Exit(m.Run())
	}
}

// record runs every function of the stack as a process with the stack's variables, and returns
// their AWS calls.
func (s *stack) record(t *testing.T) map[string][]call {
	t.Helper()
	recorded, receipt := map[string][]call{}, ""
	var tables map[string]string
	var key string
	for _, function := range []string{contract.Authorizer, contract.Forward, contract.SigningKeys, contract.Publisher, contract.Handler} {
		f, ok := s.functions[function]
		if !ok {
			continue
		}
		started(t, func(output io.Writer) {
			if function != contract.Forward { // the function Forward needs the keys that the authorizer has written into its tables
				tables, key = newTables(t, function == contract.Handler && f.Environment[contract.VariableSignLines] == "") // a handler that signs lines may have to create the keys
			}
			if function == contract.Publisher { // the table is in its event, not in a variable
				f.Environment = maps.Clone(f.Environment)
				f.Environment[contract.VariableRecordsTable] = s.functions[contract.Authorizer].Environment[contract.VariableRecordsTable]
			}
			r := newRecorder(t, f, tables)
			e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{Bootstrap: storetest.Must(os.Executable()), Name: function, Variables: s.variables(t, f, tables, r.URL), Output: output})
			if err != nil {
				t.Fatal(err)
			}
			list := events(t, function, key, receipt, tables[contract.VariableRecordsTable])
			if s.distributed() && function == contract.Publisher {
				list = append(list, deployment(t, map[string]any{contract.PropertyTable: tables[contract.VariableRecordsTable], contract.PropertyNamespace: "dev", contract.PropertyRotation: "1"}))
			}
			for _, event := range list {
				answer, err := e.Invoke(t.Context(), event)
				if err != nil && err.Error() != "function authorizer: errorString: Unauthorized" {
					t.Fatal(err)
				}
				receipt = receiptOf(answer, receipt)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			recorded[function] = slices.Concat(r.take(), recordClients(t, f), s.hostCalls(t, f))
		})
	}
	return recorded
}

// started calls run until its process has reached its tables. A process waits half a second for them at its
// start, and for those of other regions at a transfer. A busy machine can take longer.
func started(t *testing.T, run func(output io.Writer)) {
	t.Helper()
	for range 10 {
		var log bytes.Buffer
		run(io.MultiWriter(t.Output(), &log))
		if !bytes.Contains(log.Bytes(), []byte("not reached")) && !bytes.Contains(log.Bytes(), []byte("key not read")) && !bytes.Contains(log.Bytes(), []byte("store failed")) {
			return
		}
	}
	t.Fatal("ten processes did not reach their tables")
}

// recordLayer runs a function with the layer and the variables of the output LayerVariables. It
// returns the calls of the extension.
func (s *stack) recordLayer(t *testing.T) []call {
	t.Helper()
	var layered map[string]string
	if err := json.Unmarshal([]byte(s.arns(s.Outputs["LayerVariables"].Value).(string)), &layered); err != nil {
		t.Fatal(err)
	}
	f := template.Function{Environment: map[string]string{contract.VariableRulesVersion: "1"}} // the variables that refer to the tests' rules
	for name, value := range layered {
		f.Environment[strings.TrimPrefix(name, contract.LayerVariable(""))] = value
	}
	var calls []call
	started(t, func(output io.Writer) {
		tables, key := newTables(t, true)
		r := newRecorder(t, f, tables)
		program, extension := storetest.Must(os.Executable()), filepath.Join(t.TempDir(), filepath.Base(contract.LayerExtension))
		if err := os.Symlink(program, extension); err != nil {
			t.Fatal(err)
		}
		variables := []string{"WEIR_FUNCTION=" + contract.Extension, contract.VariableWrapper + "=" + contract.LayerRoot + contract.LayerWrapper}
		for _, each := range s.variables(t, f, tables, r.URL) {
			variables = append(variables, contract.LayerVariable(each))
		}
		e, err := lambdaenv.Start(t.Context(), lambdaenv.Options{Bootstrap: program, Name: contract.Extension, Variables: variables, Extensions: []string{extension}, Output: output})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events(t, contract.Extension, key, "a receipt", "") {
			if _, err := e.Invoke(t.Context(), event); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		calls = slices.Concat(r.take(), recordClients(t, f))
	})
	return calls
}

// newTables creates tables on DynamoDB Local, with an API key, and with or without the keys of receipts. A key of
// tables is the variable with which functions find the table.
func newTables(t *testing.T, receiptKeys bool) (tables map[string]string, key string) {
	t.Helper()
	_, counters := recordstest.Table(t, nil)
	client, records := recordstest.Table(t, nil)
	key, _, err := apikeys.New(client, records).Create(t.Context(), time.Now(), apikeys.Key{ID: "acme"}, false)
	if err == nil && receiptKeys {
		_, err = receipts.Load(t.Context(), client, records)
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{contract.VariableTable: counters, contract.VariableRecordsTable: records}, key
}

// variables returns a function's variables with destinations on this machine: memory replaces
// Redis, there are no decision events, and no credential is required.
func (s *stack) variables(t *testing.T, f template.Function, tables map[string]string, endpoint string) (list []string) {
	t.Helper()
	v := maps.Clone(f.Environment)
	for name := range tables {
		if v[name] != "" {
			v[name] = tables[name]
		}
	}
	v["DYNAMODB_ENDPOINT"], v[contract.VariableLocal], v["STORE_TIMEOUT"] = endpoint, "true", "900ms"
	if v[contract.VariableStore] == contract.StoreRedis {
		v[contract.VariableStore] = "memory"
	}
	if v[contract.VariableEvents] != "" {
		v[contract.VariableEvents] = ""
		delete(v, contract.VariableEventsSample)
	}
	delete(v, "REQUIRE_CREDENTIAL")
	delete(v, contract.VariableEdgeList) // recordClients has its calls
	if v["RULES_FILE"] != "" {
		rules := "rules.json"
		if _, settles := s.functions[contract.Forward]; settles {
			rules = "settle.json"
		}
		if v[contract.VariableRegions] != "" {
			rules, v["AWS_REGION"] = "shared.json", values["AWS::Region"]
		}
		v["RULES_FILE"] = storetest.Must(filepath.Abs("../../../infra/stack/testdata/" + rules))
	}
	if f.Environment["WEIR_FUNCTION"] == contract.SigningKeys {
		issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "../../../events/jwks.json") }))
		t.Cleanup(issuer.Close)
		v[contract.VariableJWKS] = issuer.URL
	}
	for name, value := range v {
		list = append(list, name+"="+value)
	}
	return list
}

// events returns events for a function, from anonymous callers and from callers with credentials, and a request
// with a receipt.
func events(t *testing.T, function, key, receipt, table string) (list [][]byte) {
	t.Helper()
	prefix := ""
	switch function {
	case contract.Forward:
		return [][]byte{[]byte(`{"cost":1,"receipt":` + text(t, receipt) + `}`)}
	case contract.SigningKeys:
		return [][]byte{[]byte("{}")}
	case contract.Publisher:
		return [][]byte{published(t, table)}
	case contract.Authorizer:
		prefix = "rest-authorizer-"
	case contract.Handler, contract.Extension:
		prefix = "http-api-"
	}
	for _, caller := range []string{"anonymous", "apikey", "user"} {
		event := storetest.Must(os.ReadFile("../../../events/" + prefix + caller + ".json"))
		list = append(list, []byte(strings.NewReplacer(`"GET"`, `"POST"`, "/GET/", "/POST/", "/api/v1/search", "/api/v1/data", "weir_sample_enterprise_key", key).Replace(string(event))))
	}
	if receipt != "" && function != contract.Authorizer {
		event := storetest.Must(os.ReadFile("../../../events/rest-proxy-anonymous.json"))
		list = append(list, bytes.Replace(event, []byte(`"weir": "allowed"`), []byte(`"weir": "allowed", "`+contract.KeyReceipt+`": `+text(t, receipt)), 1))
	}
	return list
}

// distributed reports whether the stack has a distribution, whose secret the function publisher creates.
func (s *stack) distributed() bool {
	for _, r := range s.Resources {
		if r.Type == "AWS::CloudFront::Distribution" {
			return true
		}
	}
	return false
}

// published returns an event of CloudFormation that publishes rules.
func published(t *testing.T, table string) []byte {
	t.Helper()
	var document bytes.Buffer
	if err := gzip.NewWriter(&document).Close(); err != nil {
		t.Fatal(err)
	}
	return deployment(t, map[string]any{
		contract.PropertyTable: table, contract.PropertyNamespace: "dev", contract.PropertyDocument: base64.StdEncoding.EncodeToString(document.Bytes()),
	})
}

// deployment returns an event of CloudFormation for the function publisher.
func deployment(t *testing.T, properties map[string]any) []byte {
	t.Helper()
	answers := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var answer cfn.Response
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Status != cfn.StatusSuccess {
			t.Errorf("publication: got answer %+v, error %v, want SUCCESS", answer, err)
		}
	}))
	t.Cleanup(answers.Close)
	return []byte(text(t, cfn.Event{RequestType: cfn.RequestCreate, RequestID: "r", ResponseURL: answers.URL, ResourceProperties: properties}))
}

// receiptOf returns the receipt in an authorizer's answer, or previous if it has none.
func receiptOf(answer []byte, previous string) string {
	var a struct{ Context map[string]any }
	if json.Unmarshal(answer, &a) == nil {
		if receipt, ok := a.Context[contract.KeyReceipt].(string); ok {
			return receipt
		}
	}
	return previous
}

// recorder is a proxy of DynamoDB Local that records the calls.
type recorder struct {
	*httptest.Server

	tables map[string]string // key: table name on DynamoDB Local; value: table of the stack
	mu     sync.Mutex
	calls  []call
}

func newRecorder(t *testing.T, f template.Function, tables map[string]string) *recorder {
	t.Helper()
	target := storetest.Must(url.Parse(storetest.Server(t, "dynamodb", "DYNAMODB_ENDPOINT")))
	if regions := f.Environment[contract.VariableRegions]; regions != "" {
		target = storetest.Must(url.Parse(recordstest.Regional(t, tables[contract.VariableTable], strings.Split(regions, ",")...)))
	}
	r := &recorder{tables: map[string]string{}}
	for variable, name := range tables {
		r.tables[name] = f.Environment[variable]
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return // the function cancelled the call, so there is no answer
		}
		if err := r.add(recordstest.RegionOf(in), in.Header.Get("X-Amz-Target"), body); err != nil {
			t.Error(err)
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, in)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) add(region, target string, body []byte) error {
	type item struct {
		Key struct{ S string } `json:"pk"`
	}
	var in struct {
		TableName string
		Key, Item *item
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	_, operation, _ := strings.Cut(target, ".")
	c := call{Action: "dynamodb:" + operation, Resource: "arn:aws:dynamodb:" + region + ":123456789012:table/" + r.tables[in.TableName]}
	for _, i := range []*item{in.Key, in.Item} {
		if i != nil {
			c.Keys = append(c.Keys, i.Key.S)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.calls, c.equal) {
		r.calls = append(r.calls, c)
	}
	return nil
}

// take returns the distinct calls so far.
func (r *recorder) take() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}
