package lambdahttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/storetest"
)

// targets are forms of the target of a request. Each contains a path, or one without its first slash. Most are no path, or
// one that parsers of URLs read in another way.
var targets = []string{
	"/%[2]s", "http://h/%[2]s", "HTTPS://u:p@h:80/%[2]s", "x:http://h/%[2]s", "x:/%[2]s", "x:%[2]s", "http:/%[2]s", "http:%[2]s",
	"x://h/%[2]s",
	"*", "*/%[2]s", "h:80", "h:80/%[2]s", "h/%[2]s", "%[2]s", "./%[2]s", "?/%[2]s", "#/%[2]s", "http://h?/%[2]s", "http://h",
	"//h/%[2]s", "///h/%[2]s", "////h/%[2]s", "//u:p@h/%[2]s", "//h:80/%[2]s", "//[::1]/%[2]s", "//h?/%[2]s", "//%[2]s", "///%[2]s",
	`/\h/%[2]s`, `\\h/%[2]s`, `//h\%[2]s`, `/\\h\%[2]s`, `//u\p@h/%[2]s`, `\%[2]s`, "%%2f%%2fh/%[2]s", "/%%2fh/%[2]s",
	"%%2f%[2]s", "%%5c%[2]s",
}

// absolute matches what precedes the path of a target that is a URL.
var absolute = regexp.MustCompile(`^(?i:(?:https?|x):(?://[^/]*)?)`)

// No target of a real request reaches a route of a real server, behind a reverse proxy, with less charged than the plain
// spelling of this route.
func TestSpellings_server(t *testing.T) {
	for name, start := range backEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			if len(b.command) == 0 {
				t.Skip("has no server")
			}
			store := &charges{}
			e := environment(t, store)
			e.Rules = storetest.Must(fixed(rules.Parse([]byte("{"+b.settings+routeRules), rules.Options{Version: 1})))
			upstream := served(t, b.command)
			server := httptest.NewServer(e.Gate().Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.RawQuery = upstream.Scheme, upstream.Host, r.In.URL.RawQuery
			}}))
			defer server.Close()
			client := &rawClient{address: server.Listener.Addr().String()}
			defer client.close()
			random, reached, judged := rand.New(rand.NewPCG(2, 1)), map[string]int{}, 0
			for range spellingsEach() {
				path := spelled(random, plainPaths[random.IntN(len(plainPaths))])
				target := path
				if random.IntN(2) == 0 {
					target = fmt.Sprintf(targets[random.IntN(len(targets))], path, path[1:])
				}
				store.names = nil
				route := storetest.Must(client.get(t.Context(), target))
				if route != "" {
					reached[route]++
				}
				if store.judge(t, route, absolute.ReplaceAllString(target, ""), b.plain) {
					judged++
				}
			}
			t.Logf("%d targets reached %v, %d judged", spellingsEach(), reached, judged)
			if judged < spellingsEach()/20 || len(reached) < 5 {
				t.Errorf("routes: got %v, %d judged, want at least five and a twentieth", reached, judged)
			}
		})
	}
}

// served starts a server, which prints its port, and returns its URL.
func served(t *testing.T, command []string) *url.URL {
	t.Helper()
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: got no port: %v", command, err)
	}
	return &url.URL{Scheme: "http", Host: "127.0.0.1:" + strings.TrimSpace(port)}
}

// rawClient sends targets as they are over one connection.
type rawClient struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// get returns the route that serves a target, or "" if none does.
func (c *rawClient) get(ctx context.Context, target string) (route string, err error) {
	if c.conn == nil {
		c.conn, err = new(net.Dialer).DialContext(ctx, "tcp", c.address)
		if err != nil {
			return "", err
		}
		c.reader = bufio.NewReader(c.conn)
	}
	_, err = io.WriteString(c.conn, "GET "+target+" HTTP/1.1\r\nHost: api.example.com\r\n\r\n")
	response, readErr := http.ReadResponse(c.reader, nil)
	err = errors.Join(err, readErr)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	if response.Close {
		c.close()
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusBadGateway:
		return "", fmt.Errorf("%s: got %s, want an answer of the server", target, response.Status)
	default:
		return "", err
	}
	return string(body), err
}
