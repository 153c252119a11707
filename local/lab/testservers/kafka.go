package testservers

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/weir-limits/weir/local/servers"
)

// startKafka fetches Apache Kafka once and starts it in one process, without TLS. The data is in a temporary folder.
func startKafka(ctx context.Context, root string, progress io.Writer) (*servers.Server, error) {
	if err := servers.CheckJava(ctx, "Kafka"); err != nil {
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
	s, err := startBroker(ctx, jars, dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s.OnStop(func() { _ = os.RemoveAll(dir) })
	return s, nil
}

func startBroker(ctx context.Context, jars, dir string) (*servers.Server, error) {
	port, err := servers.FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	controller, err := servers.FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start kafka: %w", err)
	}
	settings := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(settings, kafkaSettings(port, controller, filepath.Join(dir, "data")), 0o600); err != nil {
		return nil, err
	}
	classes := filepath.Join(jars, "*")
	// The cluster id must be 16 bytes in base64. Its value does not matter.
	err = run(ctx, [][]string{{"java", "-cp", classes, "kafka.tools.StorageTool", "format", "--cluster-id", "d2Vpci1sb2NhbC1rYWZrYQ",
		"--config", settings}})
	if err != nil {
		return nil, fmt.Errorf("start kafka: format: %w", err)
	}
	command := exec.Command("java", "-Xmx512m", "-cp", classes, "kafka.Kafka", settings) //nolint:noctx // it outlives the start
	command.Dir = dir
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return servers.Start(ctx, "kafka", address, command, func(ctx context.Context) error { return connect(ctx, address) })
}

// kafkaSettings returns the settings of a process that is both broker and controller.
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

// connect returns nil if a server listens at address.
func connect(ctx context.Context, address string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return c.Close()
}
