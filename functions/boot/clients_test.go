package boot_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/storetest"
)

// A function does not start if its variables configure a client that it does not link.
func TestStart_ErrClients(t *testing.T) {
	for want, variables := range map[string][]string{
		"STORE: this program does not link the client of Redis":   {"STORE=redis", "REDIS_URL=redis://127.0.0.1:1"},
		"STORE: this program does not link the store of DynamoDB": {"TABLE=counters"},
		"EVENTS: this program does not link the clients":          {"STORE=memory", "EVENTS=kinesis", "KINESIS_STREAM=weir"},
	} {
		_, err := boot.Open(t.Context(), lookup(append(variables, "NAMESPACE=dev", "WEIR_LOCAL=true")...), slog.New(slog.DiscardHandler), boot.Clients{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", variables, err, want)
		}
	}
}

// If Clients.AWS is nil, a function takes the region, the credentials and the endpoints from the
// variables that Lambda sets.
func TestConfig_AWSConfig_lambda(t *testing.T) {
	credentials(t)
	c := boot.Config{}
	config, err := c.AWSConfig(t.Context(), "DYNAMODB_ENDPOINT", "")
	if err != nil || config.Region != "eu-central-1" || config.BaseEndpoint != nil {
		t.Errorf("got region %q, endpoint %v and error %v; want eu-central-1 and no endpoint", config.Region, config.BaseEndpoint, err)
	}
	if key, err := config.Credentials.Retrieve(t.Context()); err != nil || key.AccessKeyID != "AKIDEXAMPLE" || key.SessionToken != "session/token+=" {
		t.Errorf("got credentials of %q with token %q, %v; want the credentials of the variables", key.AccessKeyID, key.SessionToken, err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if config, err = c.AWSConfig(t.Context(), "DYNAMODB_ENDPOINT", "http://127.0.0.1:1"); err != nil || *config.BaseEndpoint != "http://127.0.0.1:1" {
		t.Errorf("endpoint: got %v, %v; want http://127.0.0.1:1", config.BaseEndpoint, err)
	}
	if _, err := config.Credentials.Retrieve(t.Context()); err == nil {
		t.Error("credentials without a secret: got no error, want one")
	}
	for value, want := range map[string]aws.FIPSEndpointState{"": aws.FIPSEndpointStateUnset, "true": aws.FIPSEndpointStateEnabled, "false": aws.FIPSEndpointStateDisabled} {
		t.Setenv("AWS_USE_FIPS_ENDPOINT", value)
		client := storetest.Must(c.DynamoDBClient(t.Context()))
		if got := client.Options().EndpointOptions.UseFIPSEndpoint; got != want {
			t.Errorf("AWS_USE_FIPS_ENDPOINT=%s: got %v, want %v", value, got, want)
		}
	}
}

// On Lambda Managed Instances, too, credentials are variables, which nobody can change in a running process. The
// SDK's own chain reads the same credentials once, and cannot renew them either, even if there is a URL.
func TestConfig_AWSConfig_managedInstances(t *testing.T) {
	credentials(t)
	t.Setenv(contract.VariableInit, contract.ManagedInstances)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/credentials")
	own, err := boot.Config{}.AWSConfig(t.Context(), "DYNAMODB_ENDPOINT", "")
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := own.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := sdk.Credentials.Retrieve(t.Context())
	if err != nil || got.CanExpire || want.CanExpire || got.AccessKeyID != want.AccessKeyID || got.SecretAccessKey != want.SecretAccessKey || got.SessionToken != want.SessionToken {
		t.Errorf("credentials: got those of %s that expire %t, SDK: %s, %t, %v; want the same, without an end", got.AccessKeyID, got.CanExpire, want.AccessKeyID, want.CanExpire, err)
	}
}
