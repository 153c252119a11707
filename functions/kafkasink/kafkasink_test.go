package kafkasink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/kafkasink"
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

func sink(t *testing.T, o kafkasink.Options) *kafkasink.Sink {
	t.Helper()
	o.Topic = topic
	s, err := kafkasink.New(o)
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
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs()})
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
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs()})
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
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs()})
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
	s := sink(t, kafkasink.Options{Brokers: address})
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

// By IAM a connection shows what was signed with the credentials, and not the secret.
func TestSink_Login(t *testing.T) {
	c := cluster(t)
	var mechanism, shown atomic.Value
	c.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		mechanism.Store(r.(*kmsg.SASLHandshakeRequest).Mechanism)
		answer := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		answer.SupportedMechanisms = []string{"AWS_MSK_IAM"}
		return answer, nil, true
	})
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		shown.Store(string(r.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes))
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"1"}`)
		return answer, nil, true
	})
	t.Setenv("AWS_REGION", "eu-west-1")
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs(), Login: func(context.Context) (string, string, string, error) {
		return "AKIAEXAMPLE", "not-to-be-shown", "session", nil
	}})
	if lost, err := s.Send(t.Context(), batch(0, 1)); lost != 0 || err != nil {
		t.Fatalf("got %d lost, %v", lost, err)
	}
	got, _ := shown.Load().(string)
	if mechanism.Load() != "AWS_MSK_IAM" || !strings.Contains(got, "kafka-cluster:Connect") || !strings.Contains(got, "AKIAEXAMPLE/") || strings.Contains(got, "not-to-be-shown") {
		t.Errorf("got %v: %s", mechanism.Load(), got)
	}
}

// Credentials that cannot be had are an error, which the batch is lost by.
func TestSink_Login_failed(t *testing.T) {
	c := cluster(t)
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs(), Login: func(context.Context) (string, string, string, error) {
		return "", "", "", errors.New("no credentials")
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if lost, err := s.Send(ctx, batch(0, 3)); lost != 3 || err == nil {
		t.Errorf("got %d lost, %v", lost, err)
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
	s := sink(t, kafkasink.Options{Brokers: c.ListenAddrs()})
	for i := range 3 {
		if lost, err := s.Send(t.Context(), batch(i, 1)); lost != 0 || err != nil {
			t.Fatalf("got %d lost, %v", lost, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(found)
	if got, want := slices.Compact(found), slices.Concat(kafkasink.ClusterActions(), kafkasink.TopicActions()); !slices.Equal(got, want) {
		t.Errorf("got %v needed, want %v", got, want)
	}
}
