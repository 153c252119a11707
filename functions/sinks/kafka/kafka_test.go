package kafka_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limits/weir/functions/sinks/kafka"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The sink stores each event exactly once in an existing topic. It reports all events lost for an
// unknown topic.
func TestKafka(t *testing.T) {
	brokers := strings.Split(storetest.Server(t, "kafka", "KAFKA_BROKERS"), ",")
	name := "events-" + rand.Text()
	makeTopic(t, brokers, name)
	s, err := kafka.New(kafka.Options{Brokers: brokers, Topic: name})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const batches, each = 10, 1200
	for i := range batches {
		if lost, err := s.Send(t.Context(), batch(i*each, each)); lost != 0 || err != nil {
			t.Fatalf("got %d lost events, error %v; want none", lost, err)
		}
	}
	checkTopic(t, brokers, name, batches*each)

	nowhere, err := kafka.New(kafka.Options{Brokers: brokers, Topic: name + "-unknown"})
	if err != nil {
		t.Fatal(err)
	}
	defer nowhere.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if lost, err := nowhere.Send(ctx, batch(0, 3)); lost != 3 || err == nil {
		t.Errorf("unknown topic: got %d lost, %v; want 3 and an error", lost, err)
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
