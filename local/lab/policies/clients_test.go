package policies_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/boot"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/functions/sinks"
	"github.com/weir-limits/weir/local/gateway/template"
)

// msk is the part after "cluster/" in the ARN of the Kafka cluster in the golden template.
const msk = "decisions/0a1b2c3d-0000-1111-2222-333344445555-6"

// recordClients returns the AWS calls of a function, except those to DynamoDB. It runs the
// function's clients with the function's variables against local servers.
func recordClients(t *testing.T, f template.Function) (calls []call) {
	t.Helper()
	v := f.Environment
	if v[contract.VariableRedisIAMUser] != "" {
		calls = append(calls, recordLogin(t, v)...)
	}
	switch v[contract.VariableEvents] {
	case contract.EventsKinesis:
		calls = append(calls, recordKinesis(t, v)...)
	case contract.EventsKafka:
		calls = append(calls, recordKafka(t, v)...)
	}
	if list := v[contract.VariableEdgeList]; list != "" { // keyvalues.TestList records the client's calls
		actions := contract.ListActions()
		if v[contract.VariableFunction] == contract.Publisher {
			actions = contract.RetireActions()
		}
		for _, action := range actions {
			calls = append(calls, call{Action: action, Resource: list})
		}
	}
	return calls
}

// withAWS returns a configuration whose AWS clients use this transport.
func withAWS(c boot.Config, transport http.RoundTripper) boot.Config {
	c.Clients.AWS = func(context.Context) (aws.Config, error) {
		config := aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLE", "secret", "session")}
		if transport != nil {
			config.HTTPClient = &http.Client{Transport: transport}
		}
		return config, nil
	}
	return c
}

// recordLogin returns the AWS call that the login to the cache requires. The login token is a
// presigned request for this call.
func recordLogin(t *testing.T, v map[string]string) []call {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := withAWS(boot.Config{RedisURL: "redis://" + l.Addr().String(), RedisIAMUser: v[contract.VariableRedisIAMUser], RedisIAMCache: v[contract.VariableRedisIAMCache]}, nil)
	client, err := rediscache.NewClient(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	sent := make(chan string, 1)
	go func() {
		defer close(sent)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return
		}
		var received []byte
		for buffer := make([]byte, 4096); !strings.Contains(string(received), "X-Amz-Signature="); {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			received = append(received, buffer[:n]...)
		}
		sent <- string(received)
	}()
	_ = client.Ping(t.Context()).Err() // Ping fails, because the server closes the connection after the login
	token, err := url.Parse("https://" + regexp.MustCompile(`[a-z0-9-]+/\?\S+`).FindString(<-sent))
	if err != nil || token.Query().Get("Action") != "connect" || token.Query().Get("ResourceType") != "ServerlessCache" {
		t.Fatalf("login: got %v, error %v; want a token for a serverless cache", token, err)
	}
	return []call{
		{Action: "elasticache:Connect", Resource: arn("elasticache", "serverlesscache:"+token.Host)},
		{Action: "elasticache:Connect", Resource: arn("elasticache", "user:"+token.Query().Get("User"))},
	}
}

// transport records the calls of an AWS client whose protocol is JSON.
type transport func(operation string, body []byte)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	f(operation, body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}, Body: io.NopCloser(strings.NewReader(`{"FailedRecordCount":0,"Records":[]}`)), Request: r}, nil
}

// recordKinesis returns the calls with which a function sends an event to the stream.
func recordKinesis(t *testing.T, v map[string]string) (calls []call) {
	t.Helper()
	var c boot.Config
	c.Events, c.KinesisStream = contract.EventsKinesis, v[contract.VariableKinesisStream]
	send(t, withAWS(c, transport(func(operation string, body []byte) {
		var in struct{ StreamName string }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		calls = append(calls, call{Action: "kinesis:" + operation, Resource: arn("kinesis", "stream/"+in.StreamName)})
	})))
	return calls
}

// recordKafka returns the calls with which a function sends an event to the topic. The user guide
// of Amazon MSK lists the IAM action of each Kafka request ("Semantics of IAM authorization policy
// actions").
func recordKafka(t *testing.T, v map[string]string) (calls []call) {
	t.Helper()
	t.Setenv("AWS_REGION", "eu-central-1")
	topic := v[contract.VariableKafkaTopic]
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	var mu sync.Mutex
	add := func(action, kind, name string) {
		mu.Lock()
		defer mu.Unlock()
		c := call{Action: action, Resource: "arn:aws:kafka:eu-central-1:123456789012:" + kind + "/" + msk + name}
		if !slices.ContainsFunc(calls, c.equal) {
			calls = append(calls, c)
		}
	}
	broker.ControlKey(-1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		switch r := r.(type) {
		case *kmsg.SASLHandshakeRequest:
			return r.ResponseKind(), nil, true
		case *kmsg.SASLAuthenticateRequest:
			var login struct{ Action string }
			if err := json.Unmarshal(r.SASLAuthBytes, &login); err != nil {
				t.Error(err)
			}
			add(login.Action, "cluster", "")
			answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			answer.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"1"}`)
			return answer, nil, true
		case *kmsg.MetadataRequest:
			for _, each := range r.Topics {
				add("kafka-cluster:DescribeTopic", "topic", "/"+*each.Topic)
			}
		case *kmsg.ProduceRequest:
			add("kafka-cluster:WriteData", "topic", "/"+topic)
		case *kmsg.ApiVersionsRequest:
		default:
			t.Errorf("got the request %s, whose action is unknown", kmsg.NameForKey(r.Key()))
		}
		return nil, nil, false
	})
	var config boot.Config
	config.Events, config.KafkaBrokers, config.KafkaTopic, config.KafkaIAM = contract.EventsKafka, broker.ListenAddrs(), topic, true
	send(t, withAWS(config, nil))
	return calls
}

func send(t *testing.T, c boot.Config) {
	t.Helper()
	sink, err := sinks.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := sink.Send(t.Context(), [][]byte{[]byte("{}")}); err != nil || lost != 0 {
		t.Fatalf("got %d lost events, %v; want none", lost, err)
	}
	if closer, ok := sink.(interface{ Close() }); ok {
		closer.Close()
	}
}

// hostCalls returns the calls that Lambda itself makes with a function's role: for logs, traces and
// network interfaces. They are taken from AWS's documentation, not recorded.
func (s *stack) hostCalls(t *testing.T, f template.Function) (calls []call) {
	t.Helper()
	p := s.Resources[f.ID].Properties
	logs := p["LoggingConfig"].(map[string]any)["LogGroup"].(map[string]any)["Ref"].(string)
	for _, action := range []string{"logs:CreateLogStream", "logs:PutLogEvents"} {
		calls = append(calls, call{Action: action, Resource: arn("logs", "log-group:"+logs+":log-stream:2026/11/22/[$LATEST]0")})
	}
	if tracing, ok := p["TracingConfig"].(map[string]any); ok && tracing["Mode"] == "Active" {
		calls = append(calls, call{Action: "xray:PutTraceSegments", Resource: "*"}, call{Action: "xray:PutTelemetryRecords", Resource: "*"})
	}
	if p["VpcConfig"] == nil {
		return calls
	}
	return append(calls, networkCalls()...)
}

// networkCalls returns the calls with which Lambda connects a function to a VPC.
func networkCalls() (calls []call) {
	for action, resource := range map[string]string{
		"CreateNetworkInterface": "network-interface/eni-1", "DeleteNetworkInterface": "network-interface/eni-1", "AssignPrivateIpAddresses": "network-interface/eni-1",
		"UnassignPrivateIpAddresses": "network-interface/eni-1", "DescribeNetworkInterfaces": "*", "DescribeSubnets": "*",
	} {
		if resource != "*" {
			resource = arn("ec2", resource)
		}
		calls = append(calls, call{Action: "ec2:" + action, Resource: resource})
	}
	return calls
}
