package httplimit_test

import (
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter/storetest"
)

// The programs of testdata/programs are complete servers behind a proxy. They have few lines, and they limit.
func TestPrograms(t *testing.T) {
	for name, most := range map[string]int{"memory": 12, "redis": 16} {
		t.Run(name, func(t *testing.T) {
			text := program(t, name)
			lines := 0
			for line := range strings.Lines(text) {
				if strings.TrimSpace(line) != "" {
					lines++
				}
			}
			if lines > most {
				t.Errorf("got %d lines that are not blank, want at most %d", lines, most)
			}
			if name == "redis" {
				text = strings.NewReplacer("redis://127.0.0.1:6379", storetest.Server(t, "redis", "REDIS_URL"), "shop", rand.Text()).Replace(text)
			}
			address := start(t, text)
			admitted := 0
			for ask(t, address, "203.0.113.7").StatusCode == http.StatusOK && admitted <= 100 {
				admitted++
			}
			if admitted < 95 || admitted > 100 { // a window that ends meanwhile can cost some requests
				t.Errorf("one client: got %d requests, want 95 to 100", admitted)
			}
			if got := ask(t, address, "203.0.113.8"); got.StatusCode != http.StatusOK {
				t.Errorf("another client: got %s, want 200", got.Status)
			}
		})
	}
}

// README.md shows a program.
func TestPrograms_documents(t *testing.T) {
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if text := program(t, "memory"); !strings.Contains(string(page), "```go\n"+text+"```\n") {
		t.Errorf("README.md: got no block of Go with this program:\n%s", text)
	}
}

func program(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "programs", name+".go"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// start builds a program, starts it at a free port with this machine as its proxy, and returns its address.
func start(t *testing.T, text string) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it only looks for a port
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "server")
	text = strings.NewReplacer(":8080", address, "10.0.0.0/8", "127.0.0.1").Replace(text)
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	server := exec.CommandContext(t.Context(), binary)
	server.Dir, server.Stderr = folder, os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil { //nolint:noctx // it fails at once
			_ = c.Close()
			return address
		} else if time.Since(begun) > time.Minute {
			t.Fatalf("server: %v", err)
		}
	}
}

// ask sends a request as a proxy that got it from a client.
func ask(t *testing.T, address, client string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", "198.51.100.9, "+client)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer
}
