// Package kafka_test tests the client of the function log with a fake broker, and with Apache Kafka.
package kafka_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/log/kafka"
	"github.com/weir-limits/weir/limiter/storetest"
)

const topic = "decisions"

// cluster starts a broker with a topic of two partitions.
func cluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(2, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func sink(t *testing.T, o kafka.Options) *kafka.Topic {
	t.Helper()
	o.Topic = cmp.Or(o.Topic, topic)
	s, err := kafka.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// batch returns n different events. The number of the first event is first.
func batch(first, n int) [][]byte {
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = []byte(strconv.Itoa(first + i))
	}
	return lines
}

// checkTopic checks that a topic contains the wanted number of different events, each once.
func checkTopic(t *testing.T, brokers []string, topic string, want int) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	times := map[string]int{}
	for len(times) < want {
		fetched := c.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("topic: got %d events, want %d", len(times), want)
		}
		fetched.EachRecord(func(r *kgo.Record) { times[string(r.Value)]++ })
	}
	for value, n := range times {
		if n != 1 || len(times) != want {
			t.Fatalf("topic: got %d events, and event %s %d times; want %d events, each once", len(times), value, n, want)
		}
	}
}

// The client stores each event exactly once in an existing topic. It reports all events lost for an
// unknown topic.
func TestKafka(t *testing.T) {
	brokers := strings.Split(storetest.Server(t, "kafka", "KAFKA_BROKERS"), ",")
	name := "events-" + rand.Text()
	makeTopic(t, brokers, name)
	s := sink(t, kafka.Options{Brokers: brokers, Topic: name})
	const batches, each = 10, 1200
	for i := range batches {
		if err := s.Send(t.Context(), batch(i*each, each)); err != nil {
			t.Fatal(err)
		}
	}
	checkTopic(t, brokers, name, batches*each)

	nowhere := sink(t, kafka.Options{Brokers: brokers, Topic: name + "-unknown"})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := nowhere.Send(ctx, batch(0, 3)); err == nil {
		t.Error("unknown topic: got no error, want one")
	}
}

// makeTopic creates a topic with three partitions.
func makeTopic(t *testing.T, brokers []string, name string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, 1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(t.Context(), c)
	if err != nil || answer.Topics[0].ErrorCode != 0 {
		t.Fatalf("create topic %s: got %+v, %v; want no error", name, answer, err)
	}
}

// A dead connection loses no event, because the client sends the batch again on a new connection.
func TestTopic_Send_deadConnection(t *testing.T) {
	c := cluster(t)
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	if err := s.Send(t.Context(), batch(0, 10)); err != nil {
		t.Fatal(err)
	}
	var died atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		died.Add(1)
		return nil, errors.New("hang up"), true
	})
	if err := s.Send(t.Context(), batch(10, 10)); err != nil || died.Load() != 1 {
		t.Fatalf("got error %v and %d dead connections, want none and one", err, died.Load())
	}
	checkTopic(t, c.ListenAddrs(), topic, 20)
}

// msk starts a broker with the IAM login. The function answered completes the answers to logins.
func msk(t *testing.T, answered func(*kmsg.SASLAuthenticateRequest, *kmsg.SASLAuthenticateResponse)) *kfake.Cluster {
	t.Helper()
	c := cluster(t)
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if got := r.(*kmsg.SASLHandshakeRequest).Mechanism; got != "AWS_MSK_IAM" {
			t.Errorf("login mechanism: got %s, want AWS_MSK_IAM", got)
		}
		return r.ResponseKind(), nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answered(r.(*kmsg.SASLAuthenticateRequest), answer)
		return answer, nil, true
	})
	return c
}

// The IAM login sends a signature of the credentials, and never the secret key.
func TestTopic_Login(t *testing.T) {
	var shown atomic.Value
	c := msk(t, func(r *kmsg.SASLAuthenticateRequest, answer *kmsg.SASLAuthenticateResponse) {
		shown.Store(string(r.SASLAuthBytes))
		answer.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"1"}`)
	})
	t.Setenv("AWS_REGION", "eu-west-1")
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs(), Login: func(context.Context) (string, string, string, error) {
		return "AKIAEXAMPLE", "not-to-be-shown", "session", nil
	}})
	if err := s.Send(t.Context(), batch(0, 1)); err != nil {
		t.Fatal(err)
	}
	got, _ := shown.Load().(string)
	if !strings.Contains(got, "kafka-cluster:Connect") || !strings.Contains(got, "AKIAEXAMPLE/") || strings.Contains(got, "not-to-be-shown") {
		t.Errorf("login message: got %s, want the action and the access key, but not the secret key", got)
	}
}

// The client delivers events over TLS if it trusts the broker's certificate.
func TestTopic_Send_tls(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", trusted) // a process reads this variable only once, so no earlier test may use it
	c := cluster(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}))
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs(), TLS: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Send(ctx, batch(0, 10)); err != nil {
		t.Error(err)
	}
}

// listener returns the address of a server that closes a connection after the first bytes. Kafka does
// this for an unknown protocol. If closed is true, nothing listens at the address.
func listener(t *testing.T, closed bool) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if closed {
		_ = l.Close()
		return l.Addr().String()
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<10))
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// The error of a lost batch contains the reason why the connection failed. The reasons are a closed
// port, TLS on one side only, a rejected login, and missing credentials.
func TestTopic_Send_reason(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	login := func(err error) func(context.Context) (string, string, string, error) {
		return func(context.Context) (string, string, string, error) {
			return "AKIAEXAMPLE", "not-to-be-shown", "session", err
		}
	}
	iam := msk(t, func(_ *kmsg.SASLAuthenticateRequest, answer *kmsg.SASLAuthenticateResponse) {
		answer.ErrorCode, answer.ErrorMessage = kerr.SaslAuthenticationFailed.Code, new("Access denied")
	}).ListenAddrs()[0]
	t.Setenv("AWS_REGION", "eu-west-1")
	for _, c := range []struct {
		name, broker string
		options      kafka.Options
		want         string
	}{
		{"closed port", listener(t, true), kafka.Options{}, "connection refused"},
		{"TLS against plaintext", listener(t, false), kafka.Options{TLS: true}, "unable to dial: "},
		{"plaintext against TLS", cluster(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates})).ListenAddrs()[0], kafka.Options{},
			"is TLS missing?"},
		{"login refused", iam, kafka.Options{Login: login(nil)}, "Access denied"},
		{"no credentials", iam, kafka.Options{Login: login(errors.New("no credentials"))}, "no credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Brokers = []string{c.broker}
			s := sink(t, c.options)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			err := s.Send(ctx, batch(0, 3))
			if err == nil {
				t.Fatal("got no error, want one")
			}
			if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, "not-to-be-shown") {
				t.Errorf("error: got %v, want %s", err, c.want)
			}
		})
	}
}

// The client sends only requests that the policies allow. The user guide of Amazon MSK lists the
// actions of each request ("Semantics of IAM authorization policy actions").
func TestActions(t *testing.T) {
	needed := map[int16]string{
		int16(kmsg.ApiVersions): "", int16(kmsg.Metadata): "kafka-cluster:DescribeTopic", int16(kmsg.Produce): "kafka-cluster:WriteData",
	}
	c := cluster(t)
	var mu sync.Mutex
	found := []string{"kafka-cluster:Connect"} // the login needs this action
	c.ControlKey(-1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		action, known := needed[r.Key()]
		if !known {
			t.Errorf("got the unexpected request %s, want only requests that the policies allow", kmsg.NameForKey(r.Key()))
		}
		if action != "" {
			found = append(found, action)
		}
		return nil, nil, false
	})
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	for i := range 3 {
		if err := s.Send(t.Context(), batch(i, 1)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(found)
	if got, want := slices.Compact(found), slices.Concat(contract.KafkaClusterActions(), contract.KafkaTopicActions()); !slices.Equal(got,
		want) {
		t.Errorf("needed actions: got %v, want %v", got, want)
	}
}
