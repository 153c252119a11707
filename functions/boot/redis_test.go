package boot_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-limits/weir/functions/rediscache"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/resilient"
	"github.com/weir-limits/weir/limiter/storetest"
)

const serverless = "STORE=rediss://weir-dev@cache.example:6379?iam_cache=weir-dev-cache"

func credentials(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		"AWS_SESSION_TOKEN": "session/token+=",
		"AWS_PROFILE":       "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

// cache answers logins like an ElastiCache Serverless cache with one virtual node.
type cache struct {
	old  bool   // the cache does not support HELLO
	deaf string // command after which the cache closes the connection
	mu   sync.Mutex
	cut  int        // number of connections that the cache closed after the command deaf
	auth [][]string // user and password of each connection
}

func (s *cache) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go s.serve(far)
	return near, nil
}

func (s *cache) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := s.answer(args)
		if _, err := io.WriteString(c, answer); err != nil || answer == "" {
			return
		}
	}
}

func (s *cache) answer(args []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch name := strings.ToLower(args[0]); {
	case name == s.deaf:
		s.cut++
		return ""
	case name == "hello" && s.old:
		return "-ERR unknown command\r\n"
	case name == "hello": // the command is: hello 3 auth user password
		if len(args) > 3 {
			s.auth = append(s.auth, args[3:])
		}
		return "%0\r\n"
	case name == "auth":
		s.auth = append(s.auth, args[1:])
	case name == "cluster":
		return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$13\r\ncache.example\r\n:6379\r\n"
	}
	return "+PONG\r\n"
}

// Each connection to a serverless cache logs in with a new token, signed at the time of the login. A
// connection that was idle for too long is not used again.
func TestConfig_RedisClient_serverless(t *testing.T) {
	credentials(t)
	for _, server := range []*cache{{}, {old: true}} {
		synctest.Test(t, func(t *testing.T) {
			u := storetest.Must(rediscache.NewClient(t.Context(), load(t, serverless)))
			client := u.(*redis.ClusterClient)
			if life := client.Options().ConnMaxLifetime; life <= 0 || life > 6*time.Hour {
				t.Errorf("maximum life of a connection: got %s, want at most 6h, because ElastiCache closes a connection after 12h", life)
			}
			if tls := client.Options().TLSConfig; tls == nil || tls.ServerName != "cache.example" || tls.InsecureSkipVerify {
				t.Errorf("TLS configuration: got %+v, want server name cache.example and verification", tls)
			}
			client.Options().Dialer, client.Options().TLSConfig = server.dial, nil
			ping := func(connections int) {
				t.Helper()
				if err := client.Get(t.Context(), "key").Err(); err != nil || len(server.auth) != connections {
					t.Fatalf("got %d connections, want %d: %v", len(server.auth), connections, err)
				}
			}
			ping(1)
			begun := time.Now().UTC()
			time.Sleep(4 * time.Second)
			ping(1)
			time.Sleep(5 * time.Second)
			ping(2) // the old connection was idle for too long, so the client opens a second one
			for i, at := range []time.Time{begun, begun.Add(9 * time.Second)} {
				if user := server.auth[i][len(server.auth[i])-2]; user != "weir-dev" {
					t.Errorf("connection %d: got user %q, want weir-dev", i+1, user)
				}
				verify(t, server.auth[i][len(server.auth[i])-1], at)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// verify checks a token. It implements signature version 4 independently of the SDK.
func verify(t *testing.T, token string, at time.Time) {
	t.Helper()
	host, rest, ok := strings.Cut(token, "/?")
	query, err := url.ParseQuery(rest)
	if !ok || err != nil {
		t.Fatalf("token %q: got error %v, want HOST/?QUERY", token, err)
	}
	date := at.Format("20060102T150405Z")
	scope := date[:8] + "/eu-central-1/elasticache/aws4_request"
	for name, want := range map[string]string{
		"Action": "connect", "User": "weir-dev", "ResourceType": "ServerlessCache", "X-Amz-Expires": "900", "X-Amz-Date": date,
		"X-Amz-SignedHeaders": "host",
		"X-Amz-Algorithm":     "AWS4-HMAC-SHA256", "X-Amz-Credential": "AKIDEXAMPLE/" + scope, "X-Amz-Security-Token": "session/token+=",
	} {
		if got := query[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("parameter %s of the token: got %q, want %q", name, got, want)
		}
	}
	signature := query.Get("X-Amz-Signature")
	query.Del("X-Amz-Signature")
	if host != "weir-dev-cache" || len(query) != 9 {
		t.Errorf("token: got host %s and %d parameters, want weir-dev-cache and 9", host, len(query))
	}
	canonical := "GET\n/\n" + strings.ReplaceAll(query.Encode(), "+", "%20") + "\nhost:" + host + "\n\nhost\n" + hexSum("")
	key := []byte("AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	for _, part := range []string{date[:8], "eu-central-1", "elasticache", "aws4_request", "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" +
		hexSum(canonical)} {
		h := hmac.New(sha256.New, key)
		_, _ = io.WriteString(h, part)
		key = h.Sum(nil)
	}
	if want := hex.EncodeToString(key); signature != want {
		t.Errorf("signature: got %s, want %s", signature, want)
	}
}

func hexSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Without a region the client cannot sign a token, and the error names AWS_REGION.
func TestConfig_RedisClient_noRegion(t *testing.T) {
	credentials(t)
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err := rediscache.NewClient(t.Context(), load(t, serverless)); err == nil || !strings.HasPrefix(err.Error(),
		"AWS_REGION: required") {
		t.Errorf("without a region: got error %v, want AWS_REGION: required", err)
	}
}

// A cluster client dials an unreachable server once. If the answer to a command is lost, the client
// does not repeat the command.
func TestConfig_RedisClient_cluster(t *testing.T) {
	for name, dial := range map[string]func(*cache) (net.Conn, error){
		"not there": func(*cache) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe} },
		"hangs up":  func(s *cache) (net.Conn, error) { return s.dial(t.Context(), "", "") },
	} {
		u := storetest.Must(rediscache.NewClient(t.Context(), load(t, "STORE=redis://cache.example:6379?cluster=true")))
		client, server, dialed := u.(*redis.ClusterClient), &cache{deaf: "evalsha"}, 0
		if _, err := redisstore.New(client, redisstore.Options{Namespace: "n"}); err != nil {
			t.Fatal(err)
		}
		client.Options().Dialer = func(context.Context, string, string) (net.Conn, error) {
			dialed++
			return dial(server)
		}
		if err := client.EvalSha(t.Context(), "script", []string{"key"}).Err(); err == nil || dialed != 1 || server.cut > 1 {
			t.Errorf("%s: got %d connections and %d sent commands, want 1 and at most 1: %v", name, dialed, server.cut, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The client waits for a silent server until the deadline of the request and opens one connection. It ends an abandoned dial
// after 900 ms.
func TestConfig_RedisClient_silent(t *testing.T) {
	for _, cluster := range []string{"", "?cluster=true"} {
		synctest.Test(t, func(t *testing.T) {
			u := storetest.Must(rediscache.NewClient(t.Context(), load(t, "STORE=redis://127.0.0.1:1"+cluster)))
			dialed, limit := 0, time.Duration(0)
			dial := func(context.Context, string, string) (net.Conn, error) {
				dialed++
				near, far := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, far) }()
				return near, nil
			}
			switch client := u.(type) {
			case *redis.Client:
				client.Options().Dialer, limit = dial, client.Options().DialTimeout
			case *redis.ClusterClient:
				client.Options().Dialer, limit = dial, client.Options().DialTimeout
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			begun := time.Now()
			err := u.Get(ctx, "key").Err()
			if took := time.Since(begun); err == nil || dialed != 1 || took != 20*time.Millisecond ||
				limit != 900*time.Millisecond {
				t.Errorf("%s: got %d connections in %s, %v, and a dial timeout of %s; want 1 in 20ms, an error, and 900ms", cluster, dialed, took, err,
					limit)
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func init() {
	openRedis = func(t *testing.T, w *system, variables []string, cluster bool) {
		t.Helper()
		w.speak = speakRedis
		w.config = load(t, append(variables, "STORE=redis://store:6379"+map[bool]string{true: "?cluster=true"}[cluster])...)
		client := storetest.Must(rediscache.NewClient(t.Context(), w.config))
		switch client := client.(type) {
		case *redis.Client:
			client.Options().Dialer = w.dial
		case *redis.ClusterClient:
			client.Options().Dialer = w.dial
		}
		store := storetest.Must(redisstore.NewBare(client, redisstore.Options{Namespace: "test"}))
		w.store, w.close = storetest.Must(resilient.New(store, resilient.Options{Timeout: resilient.RedisTimeout})), client.Close
	}
}
