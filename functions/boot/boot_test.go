package boot_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/clients"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

// lookup reads variables from a list of NAME=value.
func lookup(variables ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, v := range variables {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value, true
			}
		}
		return "", false
	}
}

func TestLoad(t *testing.T) {
	c, err := boot.Load(lookup("NAMESPACE=dev", "STORE=dynamodb://weir", "DYNAMODB_ENDPOINT="))
	if err != nil || c.Table() != "weir" || c.IPv6Bits != 64 || c.DynamoDBEndpoint != "" || len(c.JWTAlgorithms) != 1 ||
		c.JWTAlgorithms[0] != "RS256" {
		t.Errorf("defaults: got %+v, %v; want the table weir, /64 networks and RS256", c, err)
	}
	c, err = boot.Load(lookup("NAMESPACE=dev", "STORE=memory:", "STORE_TIMEOUT=999ms", "BASE_PATH=/a/v1.x, /$-_.+!*'(),/",
		"CORS_ORIGINS=https://a.example:8443, http://localhost:3000,http://[::1]"))
	if err != nil || len(c.CORSOrigins) != 3 || c.CORSOrigins[1] != "http://localhost:3000" || c.Timeout != 999*time.Millisecond ||
		!slices.Equal(c.BasePaths, []string{"/a/v1.x", "/$-_.+!*'()", "/"}) {
		t.Errorf("largest allowed values: got %+v, %v; want a timeout of 999ms, 2 base paths and 3 CORS origins", c, err)
	}
	for _, bad := range []struct {
		variables []string
		want      string
	}{
		{[]string{"NAMESPACE=dev", "STORE=memory:", "ADDRESS=proxy"},
			`ADDRESS: got "proxy", want host, cloudfront, or hops:N with N from 1 to 16`},
		{[]string{"NAMESPACE=dev", "STORE=memory:", "ADDRESS=hops:1"},
			"ORIGIN_SECRET: got 0 characters with ADDRESS=hops:1, want at least 32, without spaces"},
		{[]string{"NAMESPACE=dev", "STORE=memory:", "ORIGIN_SECRET_BEFORE=short"},
			"ORIGIN_SECRET_BEFORE: got 5 characters, want none or at least 32, without spaces"},
		{[]string{"NAMESPACE=dev", "STORE=memory:", "VIEWER_ADDRESS=source"},
			"VIEWER_ADDRESS: no longer a setting; set ADDRESS to host, cloudfront or hops:N, and ORIGIN_SECRET"},
		{nil, "NAMESPACE: required"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "MAX_DELAY=x"}, `MAX_DELAY: got "x", want a duration such as 100ms`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "DECISION_SAMPLE=few"}, `DECISION_SAMPLE: got "few", want an integer`},
		{[]string{"STORE=memory:", "WEIR_LOCAL=yes", "RULES_VERSION=1.5"},
			"NAMESPACE: required\nRULES_VERSION: got \"1.5\", want an integer\nWEIR_LOCAL: got \"yes\", want true or false"},
		{[]string{"NAMESPACE=a/b", "STORE=memory:"}, `NAMESPACE: got "a/b", want 1 to 64 letters, digits, _, . and -`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "RULES_FROM=tables", "RECORDS_TABLE=records"},
			`RULES_FROM: got "tables", want one of table, deployment`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "EDGE_LIST=arn:x", "REDIS_CLUSTER=true"}, "EDGE_LIST: no longer a setting; weir " +
			"block and the stack infra/edge refuse callers at a distribution, and the setting waf floods\nREDIS_CLUSTER: no longer a setting; " +
			"add ?cluster=true to STORE"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "RULES_FROM=table"},
			"RECORDS_TABLE: required with RULES_FROM=table: name of the table that holds the rules"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "BASE_PATH=//"}, badBasePath("//")},
		{[]string{"NAMESPACE=a", "STORE=memory:", "BASE_PATH=/a/../b"}, badBasePath("/a/../b")},
		{[]string{"NAMESPACE=a", "STORE=memory:", "BASE_PATH=/v1,/v 2"}, badBasePath("/v 2")},
		{[]string{"NAMESPACE=a", "STORE=memory:", "BASE_PATH=/v1" + strings.Repeat(",/v1", 50)}, "BASE_PATH: got 51 paths, want at most 50"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "STORE_TIMEOUT=1s"},
			"STORE_TIMEOUT: got 1s, want at least 0s and less than 1s (0s means 50ms with redis, 100ms with dynamodb)"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "RULES_VERSION=-1"}, "RULES_VERSION: got -1, want 1 to 140737488355327, such as Unix seconds"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "CORS_ORIGINS=https://a.example,*"}, badOrigin("*")},
		{[]string{"NAMESPACE=a", "STORE=memory:", "CORS_ORIGINS=https://*.example, a.example"}, badOrigin("https://*.example") + "\n" +
			badOrigin("a.example")},
		{[]string{"NAMESPACE=a", "STORE=memory:", "REGIONS=eu-central-1"},
			"REGIONS: got a STORE without a table, want dynamodb://TABLE; no other store can be reached from other regions\n" +
				"REGIONS: got 1 regions, want 2 to 10\nREGIONS: got no \"\", want a list with AWS_REGION, the region of this function"},
		{[]string{"NAMESPACE=a", "STORE=dynamodb://counters", "AWS_REGION=us-east-1", "REGIONS=us-east-1,eu,us-east-1"},
			"REGIONS: got \"eu\", want a region such as eu-central-1\nREGIONS: got us-east-1 twice"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "IPV6_BITS=0"}, "IPV6_BITS: got 0, want 1 to 128"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "JWKS=https://i/k", "JWT_AUDIENCE=w"},
			"JWT_ISSUER: required with JWKS; otherwise tokens of any issuer with the same key are valid"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "JWKS=https://i/k", "JWT_ISSUER=i"},
			"JWT_AUDIENCE: required with JWKS; otherwise tokens for other APIs are valid"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "IDENTITY=hosts"}, `IDENTITY: got "hosts", want one of weir, host, host+keys`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "IDENTITY=host", "BEHIND_AUTHORIZER=true"},
			"JWKS and BEHIND_AUTHORIZER: got one with IDENTITY=host, want neither: the host has verified the caller"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "IDENTITY=host", "CLAIMS=a=b,c"},
			`CLAIMS: got "c", want a name and a path such as org=org.id`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "JWKS=keys.json", "JWT_ISSUER=i", "JWT_AUDIENCE=w"},
			`JWKS: key file without WEIR_LOCAL=true (got "keys.json", want a URL); key files are for local use`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "API_KEYS_FILE=k", "API_KEY_SECRET_FILE=s"},
			`API_KEYS_FILE: file without WEIR_LOCAL=true (got "k", want none); such files are for local use`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "API_KEYS_FILE=k", "WEIR_LOCAL=true"},
			"API_KEYS_FILE and API_KEY_SECRET_FILE: got one, want both or none"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "JWKS=records:", "JWT_ISSUER=i", "JWT_AUDIENCE=w"},
			"RECORDS_TABLE: required with JWKS=\"records:\": name of the table that holds the copy of the keys"},
		{[]string{"NAMESPACE=a", "STORE=memory:", "RECORDS_TABLE=a/b"},
			`RECORDS_TABLE: got "a/b", want the name of a DynamoDB table: 3 to 255 letters, digits, _, . and -`},
		{[]string{"NAMESPACE=a", "STORE=memory:", "RECORDS_TABLE=weir", "API_KEYS_FILE=k", "API_KEY_SECRET_FILE=s", "WEIR_LOCAL=true"},
			"RECORDS_TABLE and API_KEYS_FILE: got both, want one; API keys have one source"},
		{[]string{"NAMESPACE=/", "STORE=dynamodb:", "IPV6_BITS=129"}, "NAMESPACE: got \"/\", want 1 to 64 letters, digits, _, . and -\n" +
			"STORE: got \"\" after dynamodb:, want // and the name of a DynamoDB table: 3 to 255 letters, digits, _, . and -\n" +
			"IPV6_BITS: got 129, want 1 to 128"},
	} {
		if _, err := boot.Load(lookup(bad.variables...)); err == nil || err.Error() != bad.want {
			t.Errorf("%v:\n got %v\nwant %s", bad.variables, err, bad.want)
		}
	}
}

func badOrigin(origin string) string {
	return fmt.Sprintf("CORS_ORIGINS: got %q, want only *, or origins without a path (https://app.example.com, http://localhost:3000)", origin)
}

func badBasePath(path string) string {
	return fmt.Sprintf("BASE_PATH: got %q, want a path such as /v1, or several separated by commas", path)
}

func load(t *testing.T, variables ...string) boot.Config {
	t.Helper()
	c := storetest.Must(clients.Load(lookup(append(variables, "NAMESPACE=test")...)))
	return c
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const oneRule = `{"rules":[{"endpoint":"/a","limits":{"*":{"requests":1,"window":"1m"}}}]}`

// The version of the rules is in the document or in RULES_VERSION. On a developer's machine it can
// also be the modification time of the file. That of the built-in rules can also be the time of the commit.
func TestConfig_Environment_version(t *testing.T) {
	silent, speaking := write(t, "rules.json", oneRule), write(t, "rules.json", `{"version":7,`+oneRule[1:])
	changed := time.Unix(1_700_000_000, 0)
	if err := os.Chtimes(silent, changed, changed); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variables []string
		want      int64 // 0 means an error
	}{
		{[]string{"RULES_FILE=" + speaking}, 7},
		{[]string{"RULES_FILE=" + speaking, "RULES_VERSION=8", "WEIR_LOCAL=true"}, 7},
		{[]string{"RULES_FILE=" + silent, "RULES_VERSION=8"}, 8},
		{[]string{"RULES_FILE=" + silent, "RULES_VERSION=8", "WEIR_LOCAL=true"}, 8},
		{[]string{"RULES_VERSION=8"}, 8},
		{[]string{"RULES_FILE=" + silent, "WEIR_LOCAL=true"}, 1_700_000_000_000},
		{[]string{"RULES_FILE=" + silent}, 0},
		{nil, 0},
	} {
		e, err := load(t, append(c.variables, "STORE=memory:")...).Environment(t.Context(), store, quiet)
		if c.want == 0 {
			if err == nil || !strings.Contains(err.Error(), "add a version") || !strings.Contains(err.Error(), "RULES_VERSION") {
				t.Errorf("%v: got error %v, want an error that names RULES_VERSION", c.variables, err)
			}
			continue
		}
		if err != nil || e.Rules.Current().Version() != c.want {
			t.Errorf("%v: got version %d, want %d: %v", c.variables, e.Rules.Current().Version(), c.want, err)
		}
	}
	boot.BuiltFrom(t, "2023-11-14T22:13:20Z")
	for version, want := range map[string]int64{"": 1_700_000_000, "8": 8} {
		e, err := load(t, "STORE=memory:", "RULES_VERSION="+version).Environment(t.Context(), store, quiet)
		if err != nil || e.Rules.Current().Version() != want {
			t.Errorf("built-in rules of a commit with RULES_VERSION=%s: got error %v, want the version %d", version, err, want)
		}
	}
	if _, err := load(t, "STORE=memory:", "RULES_FILE="+silent).Environment(t.Context(), store, quiet); err == nil {
		t.Error("file of a bundle: got the time of the commit as its version, want an error")
	}
}

var store = storetest.Must(memstore.New(memstore.Options{}))

// quiet are the Options of an Environment without output.
var quiet = boot.Options{Logger: slog.New(slog.DiscardHandler)}

func TestConfig_Environment(t *testing.T) {
	e, err := load(t, "STORE=memory:", "WEIR_LOCAL=true").Environment(t.Context(), store, quiet)
	if err != nil || e.Rules.Current().Len() == 0 || e.Recorder != nil {
		t.Fatalf("built-in rules: got error %v and environment %+v; want no error, some rules, no Recorder and no Events", err, e)
	}
	rules := write(t, "rules.json", oneRule)
	keys := storetest.Must(events.Files.ReadFile("jwks.json"))
	jwks, secret := write(t, "jwks.json", string(keys)), write(t, "secret", "0123456789abcdef")
	records := write(t, "apikeys.json", `[{"id":"k1","tier":"paid","hash":"`+caller.HashAPIKey([]byte("0123456789abcdef"), "the-key")+`"}]`)
	local := []string{"STORE=memory:", "WEIR_LOCAL=true", "RULES_FILE=" + rules, "JWKS=" + jwks, "JWT_ISSUER=" + events.Issuer,
		"JWT_AUDIENCE=" + events.Audience, "JWT_ALGORITHMS=ES256,EdDSA",
		"API_KEYS_FILE=" + records, "API_KEY_SECRET_FILE=" + secret, "REQUIRE_CREDENTIAL=true", "BASE_PATH=/v1"}
	e, err = load(t, local...).Environment(t.Context(), store, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if caller, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{APIKey: "the-key"}); err != nil ||
		caller.APIKey != "k1" {
		t.Errorf("API key: got %+v, %v; want k1", caller, err)
	}
	if _, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{Authorization: "Bearer x"}); !errors.Is(err,
		caller.ErrInvalidCredential) {
		t.Errorf("bad token: got %v, want ErrInvalidCredential", err)
	}
	if _, err := e.Identifier.Caller(t.Context(), time.Now(), caller.Credentials{}); !errors.Is(err, caller.ErrMissingCredential) ||
		!slices.Equal(e.BasePaths, []string{"/v1"}) {
		t.Errorf("no credential: got %v, want ErrMissingCredential and the base path /v1", err)
	}
	for identity, keys := range map[string]bool{"host": false, "host+keys": true} {
		e, err := load(t, "STORE=memory:", "WEIR_LOCAL=true", "RULES_FILE="+rules, "API_KEYS_FILE="+records, "API_KEY_SECRET_FILE="+secret,
			"IDENTITY="+identity, "TIER_CLAIM=cognito:groups", "CLAIMS=org=org.id").Environment(t.Context(), store, quiet)
		if err != nil || e.Host == nil || e.Host.User != "sub" || e.Host.Tier != "cognito:groups" || e.Host.Others["org"] != "org.id" {
			t.Fatalf("%s: got %+v, %v, want the names of claims", identity, e, err)
		}
		if tokens, read := e.Identifier.Identifies(); tokens || read != keys {
			t.Errorf("%s: reads tokens %t, API keys %t, want false and %t", identity, tokens, read, keys)
		}
	}
	for want, variables := range map[string][]string{
		"rules: open nowhere":        {"STORE=memory:", "RULES_FILE=nowhere"},
		"rules:\nline 1, column 2: ": {"STORE=memory:", "RULES_FILE=" + secret},
		"JWKS: open nowhere": {"STORE=memory:", "WEIR_LOCAL=true", "JWKS=nowhere", "JWT_ISSUER=i",
			"JWT_AUDIENCE=a"},
		"JWKS " + rules + ": key set: ": {"STORE=memory:", "WEIR_LOCAL=true", "JWKS=" + rules,
			"JWT_ISSUER=i", "JWT_AUDIENCE=a"},
		"key set: URL: not trusted (got \"ftp://i/k\", want https": {"STORE=memory:", "RULES_FILE=" + rules,
			"RULES_VERSION=1", "JWKS=ftp://i/k", "JWT_ISSUER=i", "JWT_AUDIENCE=a"},
		"environment: token algorithms: unknown (got \"none\"": {"STORE=memory:", "RULES_FILE=" + rules,
			"RULES_VERSION=1", "JWKS=https://i/k", "JWT_ISSUER=i", "JWT_AUDIENCE=a", "JWT_ALGORITHMS=none"},
		"API_KEYS_FILE: open nowhere":       {"STORE=memory:", "WEIR_LOCAL=true", "API_KEYS_FILE=nowhere", "API_KEY_SECRET_FILE=" + secret},
		"API_KEY_SECRET_FILE: open nowhere": {"STORE=memory:", "WEIR_LOCAL=true", "API_KEYS_FILE=" + records, "API_KEY_SECRET_FILE=nowhere"},
		"API_KEYS_FILE " + rules + ", API_KEY_SECRET_FILE " + secret + ": API key records: ": {"STORE=memory:", "WEIR_LOCAL=true",
			"API_KEYS_FILE=" + rules, "API_KEY_SECRET_FILE=" + secret},
	} {
		if _, err := load(t, variables...).Environment(t.Context(), store, quiet); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v:\n got %v\nwant %s", variables, err, want)
		}
	}
}

func TestConfig_OpenStore(t *testing.T) {
	if _, _, err := load(t, "STORE=dynamodb://counters", "DYNAMODB_ENDPOINT=localhost:8000").OpenStore(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), `DYNAMODB_ENDPOINT: got "localhost:8000",`) {
		t.Error(err)
	}
	for _, variables := range [][]string{{"STORE=memory:"}, {"STORE=redis://127.0.0.1:1"},
		{"STORE=redis://u:p%2Fw@127.0.0.1:1/1?pool_size=2&cluster=true"},
		{"STORE=dynamodb://counters", "DYNAMODB_ENDPOINT=http://127.0.0.1:1", "WEIR_LOCAL=true"}} {
		c := load(t, variables...)
		s, closeStore, err := c.OpenStore(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = c.Probe(t.Context(), s)
		if ok := c.Store == "memory:"; (err == nil) != ok || err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(),
			"does not answer")) {
			t.Errorf("%v: probe: got error %v; want none for memory, and one line with \"does not answer\" for other stores", variables, err)
		}
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	}
}

// A STORE that no store accepts gets one line. An invalid URL can contain an unescaped password, so the line has no part of it.
func TestConfig_OpenStore_invalid(t *testing.T) {
	invalid := map[string]string{
		"":      `got "", want a URL: memory:, dynamodb://TABLE or one such as redis://HOST:6379, which replaces TABLE and REDIS_URL`,
		"redis": `got "redis", want a URL`, "memory://": `got "//" after memory:, want nothing`,
		"dynamodb://": `got "//" after dynamodb:, want // and the name`, "dynamodb:weir": `got "weir" after dynamodb:`,
		"dynamodb://weir/a": `got "//weir/a" after`, "dynamodb://weir?a=b": `got "//weir?a=b" after`, "dynamodb://weir#a": `got "//weir#a" after`,
		"REDIS://h":              `got the scheme "REDIS", which this program does not link (want dynamodb or memory or r`,
		"http://hunter2":         `got the scheme "http", which`,
		"rediss://h?iam_cache=c": "invalid URL with iam_cache", "rediss://u:hunter2@h?iam_cache=c": "invalid URL with iam_cache",
		"rediss://u@h?iam_cache=Hunter2": "invalid URL with iam_cache",
		"redis://u@h?iam_cache=c":        "invalid URL with iam_cache (want rediss://USER@HOST:6379?iam_cache=NAME: TLS, ",
	}
	for _, address := range []string{
		"redis://user:hunt/er2@127.0.0.1:1", "redis://user:/hunter2@127.0.0.1:1", "redis://user:12?hunter2@127.0.0.1",
		"redis://user:#hunter2@127.0.0.1:1", "redis://user:12#hunter2@127.0.0.1:1", "redis://127.0.0.1:1/0#", "redis://127.0.0.1:1/0?hunter2=1",
		"redis://127.0.0.1:1/0?read_timeout=hunter2", "redis://127.0.0.1:1/hunter2", "redis://user:1/2/hunter2@127.0.0.1:1",
		"redis://h?cluster=hunter2", "redis://h?cluster=true#hunter2", "redis://h?%hunter2", "rediss://u:hunter2?iam_cache=c", "redis:hunter2",
	} {
		for _, cluster := range []string{"", "?cluster=true", "&cluster=true"} {
			invalid[address+cluster] = "invalid URL (want redis://host:6379 "
		}
	}
	for address, want := range invalid {
		c, err := clients.Load(lookup("NAMESPACE=test", "STORE="+address))
		if err == nil {
			_, _, err = c.OpenStore(t.Context())
		}
		if err == nil || !strings.HasPrefix(err.Error(), "STORE: "+want) || strings.Contains(err.Error(), "\n") ||
			strings.Contains(err.Error(), "hunt") || strings.Contains(err.Error(), "er2") {
			t.Errorf("STORE=%s: got error %v, want %s, and no password", address, err, want)
		}
	}
}

// evicting is a store whose server can evict counts.
type evicting struct{ limiter.Store }

func (evicting) Warning(context.Context) string { return "the server evicts" }

// A start logs the warning of the store once.
func TestConfig_warn(t *testing.T) {
	c := load(t, "STORE=memory:", "WEIR_LOCAL=true")
	var log strings.Builder
	s := storetest.Must(resilient.New(evicting{store}, resilient.Options{}))
	storetest.Must(c.StartOver(t.Context(), s, boot.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	if strings.Count(log.String(), "the server evicts") != 1 {
		t.Errorf("got log %s, want the warning once", &log)
	}
}

// A local run ignores the AWS configuration of the user. It never sends the credentials of the user
// to the endpoint.
func TestConfig_DynamoDBClient_local(t *testing.T) {
	t.Setenv("AWS_PROFILE", "no-such-profile")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOFTHEUSER")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of the user")
	c := load(t, "STORE=dynamodb://counters", "DYNAMODB_ENDPOINT=http://127.0.0.1:1", "WEIR_LOCAL=true")
	client := storetest.Must(c.DynamoDBClient(t.Context()))
	if key, err := client.Options().Credentials.Retrieve(t.Context()); err != nil || key.AccessKeyID != "local" {
		t.Errorf("credentials: got %q, %v; want local", key.AccessKeyID, err)
	}
	c.Local = false
	if _, err := c.DynamoDBClient(t.Context()); err == nil || !strings.Contains(err.Error(), "no-such-profile") {
		t.Errorf("client for AWS: got error %v, want an error about the missing profile", err)
	}
}

// Explain adds the problem and the remedy to an error of the store.
func TestConfig_Explain(t *testing.T) {
	refused := fmt.Errorf("%w: %w", limiter.ErrUnavailable, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")})
	noTable := fmt.Errorf("%w: %w", limiter.ErrUnavailable, &types.ResourceNotFoundException{})
	aws, local, cache := boot.Config{Store: "dynamodb://weir"}, boot.Config{Store: "dynamodb://weir", DynamoDBEndpoint: "http://h:8000"},
		boot.Config{Store: "rediss://u:secret@h:6379", DynamoDBEndpoint: "http://h:8000"}
	for want, c := range map[string]struct {
		config boot.Config
		err    error
	}{
		`DynamoDB at http://h:8000 has no table "weir"; create it (locally, weir serve does)`: {local, noTable},
		`DynamoDB at http://h:8000 does not answer (dial tcp: connection refused); check that it runs ` +
			`and that DYNAMODB_ENDPOINT is its URL`: {local, refused},
		`DynamoDB does not answer (dial tcp: connection refused); check the region and the credentials`: {aws, refused},
		`the store at rediss://h:6379 does not answer (dial tcp: connection refused); check that it runs ` +
			`and that this is its URL`: {cache, refused},
		`the store at rediss://h:6379 failed: store unavailable: context deadline exceeded`: {cache,
			fmt.Errorf("%w: %w", limiter.ErrUnavailable, context.DeadlineExceeded)},
	} {
		if got := c.config.Explain(c.err).Error(); got != want {
			t.Errorf("message:\n got %s\nwant %s", got, want)
		}
	}
}

// CORS_ORIGINS sets the allowed origins of the environment.
func TestConfig_Environment_cors(t *testing.T) {
	c := load(t, "STORE=memory:", "CORS_ORIGINS=https://a.example,https://b.example", "RULES_VERSION=1")
	store, _, err := c.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := storetest.Must(c.Environment(t.Context(), store, quiet))
	if want := []string{"https://a.example", "https://b.example"}; !slices.Equal(e.CORSOrigins, want) {
		t.Errorf("CORS origins: got %q, want %q", e.CORSOrigins, want)
	}
}
