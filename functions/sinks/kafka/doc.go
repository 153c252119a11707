// Package kafka sends events to a Kafka topic.
//
// Each event is one message without a key, so that a batch goes to one partition at a time, and
// all of them in turn: the environment and the sequence in an event tell their order. The leader
// of the partition acknowledges a batch: what it had alone when it fails is lost, unseen.
//
// Connections are opened when they are needed. One that has died, such as while Lambda had frozen
// the process, is replaced, and what was on its way is sent again: it may come twice.
package kafka
