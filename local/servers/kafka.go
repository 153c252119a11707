package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// kafkaPOM pins the jars of Apache Kafka, below the root of the checkout, and kafkaDir is
// where they are fetched to.
const (
	kafkaPOM = "local/servers/kafka/pom.xml"
	kafkaDir = ".bin/kafka"
)

// StartKafka starts Apache Kafka in one process, without TLS, which it fetches first where
// that was not done yet. It keeps what it is sent in a temporary folder. root is the root of the
// checkout; progress gets a line for what takes long.
func StartKafka(ctx context.Context, root string, progress io.Writer) (*Server, error) {
	if err := checkJava(ctx, "Kafka"); err != nil {
		return nil, err
	}
	jars, err := fetchKafka(ctx, root, progress)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-kafka-")
	if err != nil {
		return nil, err
	}
	s, err := startKafka(ctx, jars, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s.remove = func() { _ = os.RemoveAll(dir) }
	return s, nil
}

// startKafka starts Kafka on what is in dir.
func startKafka(ctx context.Context, jars, dir string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	controller, err := freePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	settings := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(settings, kafkaSettings(port, controller, filepath.Join(dir, "data")), 0o600); err != nil {
		return nil, err
	}
	classes := filepath.Join(jars, "*")
	// An id is 16 bytes in base 64; nobody compares this one with another.
	format := exec.CommandContext(ctx, "java", "-cp", classes, "kafka.tools.StorageTool", "format", "--cluster-id", "d2Vpci1sb2NhbC1rYWZrYQ", "--config", settings)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("start kafka: format: %w: %s", err, out)
	}
	command := exec.Command("java", "-Xmx512m", "-cp", classes, "kafka.Kafka", settings) //nolint:noctx // it outlives the start
	command.Dir = dir
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return start(ctx, "kafka", address, command, func(ctx context.Context) error { return connect(ctx, address) })
}

// kafkaSettings returns those of a broker that is its own controller.
func kafkaSettings(port, controller int, data string) []byte {
	return fmt.Appendf(nil, `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[2]d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
`, port, controller, data)
}

// connect reports whether somebody listens at address.
func connect(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}

// fetchKafka returns the folder of the jars, which Maven brings if they are not there, or
// others were.
func fetchKafka(ctx context.Context, root string, progress io.Writer) (string, error) {
	pom, err := os.ReadFile(filepath.Join(root, kafkaPOM))
	if err != nil {
		return "", fmt.Errorf("kafka: run this inside a checkout of Weir: %w", err)
	}
	jars := filepath.Join(root, kafkaDir)
	made := filepath.Join(jars, "pom.xml")
	if of, err := os.ReadFile(made); err == nil && bytes.Equal(of, pom) {
		return jars, nil
	}
	unlock, err := lockFile(ctx, jars+".lock")
	if err != nil {
		return "", fmt.Errorf("kafka: %w", err)
	}
	defer unlock()
	if of, err := os.ReadFile(made); err == nil && bytes.Equal(of, pom) { // by who had the lock before
		return jars, nil
	}
	fmt.Fprintln(progress, "fetching Apache Kafka, 46 MB, once ...")
	if err := os.RemoveAll(jars); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", filepath.Join(root, kafkaPOM), "dependency:copy-dependencies", "-DoutputDirectory="+jars)
	if out, err := command.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("mvn %w on the PATH: it fetches Apache Kafka (Debian: apt-get install maven; macOS: brew install maven)", errMissing)
		}
		return "", fmt.Errorf("kafka: mvn: %w: %s", err, out)
	}
	return jars, os.WriteFile(made, pom, 0o600)
}
