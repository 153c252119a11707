package kafka_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
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
	"github.com/weir-limits/weir/functions/sinks/kafka"
)

const topic = "decisions"

// cluster returns a broker with the topic in two partitions.
func cluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(options, kfake.NumBrokers(1), kfake.SeedTopics(2, topic))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func sink(t *testing.T, o kafka.Options) *kafka.Sink {
	t.Helper()
	o.Topic = topic
	s, err := kafka.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// batch returns n events that are told apart by first.
func batch(first, n int) [][]byte {
	lines := make([][]byte, n)
	for i := range lines {
		lines[i] = []byte(strconv.Itoa(first + i))
	}
	return lines
}

// checkTopic checks that a topic has want events, each once.
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
			t.Fatalf("the topic has %d events, want %d", len(times), want)
		}
		fetched.EachRecord(func(r *kgo.Record) { times[string(r.Value)]++ })
	}
	for value, n := range times {
		if n != 1 || len(times) != want {
			t.Fatalf("the topic has %d events, and %s %d times, want %d, once each", len(times), value, n, want)
		}
	}
}

func TestSink_Send(t *testing.T) {
	c := cluster(t)
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	const batches, each = 20, 1200
	for i := range batches {
		if lost, err := s.Send(t.Context(), batch(i*each, each)); lost != 0 || err != nil {
			t.Fatalf("got %d lost, %v", lost, err)
		}
	}
	checkTopic(t, c.ListenAddrs(), topic, batches*each)
}

// A connection that has died costs nothing: the batch goes by another.
func TestSink_Send_deadConnection(t *testing.T) {
	c := cluster(t)
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	if lost, err := s.Send(t.Context(), batch(0, 10)); lost != 0 || err != nil {
		t.Fatalf("got %d lost, %v", lost, err)
	}
	var died atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		died.Add(1)
		return nil, errors.New("hang up"), true
	})
	if lost, err := s.Send(t.Context(), batch(10, 10)); lost != 0 || err != nil || died.Load() != 1 {
		t.Fatalf("got %d lost, %v, %d connections dead", lost, err, died.Load())
	}
	checkTopic(t, c.ListenAddrs(), topic, 20)
}

// What a broker that hangs has not acknowledged is lost as soon as it is given up, and no
// more than two batches are kept for it.
func TestSink_Send_hung(t *testing.T) {
	c := cluster(t)
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	ctx, giveUp := context.WithCancel(t.Context())
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		giveUp()
		return nil, nil, true // and no answer
	})
	if lost, err := s.Send(ctx, batch(0, 1200)); lost != 1200 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d lost, %v, want all, and context canceled", lost, err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if lost, _ := s.Send(ctx, batch(0, 1200)); lost != 1200 {
			t.Errorf("got %d lost, want all", lost)
		}
		cancel()
	}
}

// A broker that is not there takes nothing; as soon as it is, it takes what is sent.
func TestSink_Send_back(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	address := []string{fmt.Sprintf("127.0.0.1:%d", port)}
	s := sink(t, kafka.Options{Brokers: address})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if lost, err := s.Send(ctx, batch(0, 100)); lost != 100 || err == nil {
		t.Errorf("got %d lost, %v, want all, and why", lost, err)
	}
	cluster(t, kfake.Ports(port))
	if lost, err := s.Send(t.Context(), batch(100, 100)); lost != 0 || err != nil {
		t.Errorf("got %d lost, %v, want none", lost, err)
	}
	checkTopic(t, address, topic, 100)
}

// msk returns a broker that logs in by IAM, as answered.
func msk(t *testing.T, answered func(*kmsg.SASLAuthenticateRequest, *kmsg.SASLAuthenticateResponse)) *kfake.Cluster {
	t.Helper()
	c := cluster(t)
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if got := r.(*kmsg.SASLHandshakeRequest).Mechanism; got != "AWS_MSK_IAM" {
			t.Errorf("the login is by %s", got)
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

// By IAM a connection shows what was signed with the credentials, and not the secret.
func TestSink_Login(t *testing.T) {
	var shown atomic.Value
	c := msk(t, func(r *kmsg.SASLAuthenticateRequest, answer *kmsg.SASLAuthenticateResponse) {
		shown.Store(string(r.SASLAuthBytes))
		answer.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"1"}`)
	})
	t.Setenv("AWS_REGION", "eu-west-1")
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs(), Login: func(context.Context) (string, string, string, error) {
		return "AKIAEXAMPLE", "not-to-be-shown", "session", nil
	}})
	if lost, err := s.Send(t.Context(), batch(0, 1)); lost != 0 || err != nil {
		t.Fatalf("got %d lost, %v", lost, err)
	}
	got, _ := shown.Load().(string)
	if !strings.Contains(got, "kafka-cluster:Connect") || !strings.Contains(got, "AKIAEXAMPLE/") || strings.Contains(got, "not-to-be-shown") {
		t.Errorf("got %s", got)
	}
}

// By TLS a broker whose certificate is trusted takes what is sent.
func TestSink_Send_tls(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", trusted) // read once: no other test may need it before
	c := cluster(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}))
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs(), TLS: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if lost, err := s.Send(ctx, batch(0, 10)); lost != 0 || err != nil {
		t.Errorf("got %d lost, %v", lost, err)
	}
}

// listener returns the address of a broker that hangs up on whoever does not speak its protocol,
// as Kafka does; a closed one takes no connection.
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

// What a batch is lost by is why there is no connection: no broker, one that speaks TLS, or
// does not, or refuses the login, or credentials that cannot be had.
func TestSink_Send_why(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	login := func(err error) kafka.Login {
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
		{"plaintext against TLS", cluster(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates})).ListenAddrs()[0], kafka.Options{}, "is TLS missing?"},
		{"login refused", iam, kafka.Options{Login: login(nil)}, "Access denied"},
		{"no credentials", iam, kafka.Options{Login: login(errors.New("no credentials"))}, "no credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Brokers = []string{c.broker}
			s := sink(t, c.options)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			lost, err := s.Send(ctx, batch(0, 3))
			if lost != 3 || err == nil {
				t.Fatalf("got %d lost, %v", lost, err)
			}
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, "connection to "+c.broker) || strings.Contains(text, "not-to-be-shown") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// What is asked of the brokers is what the policies allow. By the user guide of Amazon MSK,
// "Semantics of IAM authorization policy actions", each request needs an action.
func TestActions(t *testing.T) {
	needed := map[int16]string{
		int16(kmsg.ApiVersions): "", int16(kmsg.Metadata): "kafka-cluster:DescribeTopic", int16(kmsg.Produce): "kafka-cluster:WriteData",
	}
	c := cluster(t)
	var mu sync.Mutex
	found := []string{"kafka-cluster:Connect"} // by logging in
	c.ControlKey(-1, func(r kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		action, known := needed[r.Key()]
		if !known {
			t.Errorf("a sink sends %s", kmsg.NameForKey(r.Key()))
		}
		if action != "" {
			found = append(found, action)
		}
		return nil, nil, false
	})
	s := sink(t, kafka.Options{Brokers: c.ListenAddrs()})
	for i := range 3 {
		if lost, err := s.Send(t.Context(), batch(i, 1)); lost != 0 || err != nil {
			t.Fatalf("got %d lost, %v", lost, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(found)
	if got, want := slices.Compact(found), slices.Concat(contract.KafkaClusterActions(), contract.KafkaTopicActions()); !slices.Equal(got, want) {
		t.Errorf("got %v needed, want %v", got, want)
	}
}
