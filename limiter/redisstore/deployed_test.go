package redisstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// local returns a client of a Redis server with all permissions, which sets up and inspects the data
// of a test. Stores connect as the users of a deployment.
func local(t testing.TB) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(storetest.Server(t, "redis", "REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries, o.PipelinePoolSize, o.ContextTimeoutEnabled = -1, -1, true
	client := redis.NewClient(o)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// users are the users of a deployment: the functions' user and the operator's user.
type users struct{ function, operator redis.UniversalClient }

// deployed returns clients of the users on the server of REDIS_URL. At the end of the test, it checks
// that the access lists denied no command.
func deployed(t testing.TB) users {
	t.Helper()
	server := local(t)
	connect := func(name string) redis.UniversalClient {
		o := *server.Options()
		o.Username, o.Password = name, "secret"
		// The client has the options of functions/boot, because an access list must allow the commands
		// that these options cause.
		o.DisableIdentity, o.MaintNotificationsConfig = true, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		return redis.NewClient(&o)
	}
	return newUsers(t, connect, server)
}

// newUsers creates the users on servers. At the end of the test, it checks that the access lists
// denied no command. A server that no longer runs denies none.
func newUsers(t testing.TB, connect func(name string) redis.UniversalClient, servers ...*redis.Client) users {
	t.Helper()
	add := func(role string, commands []string) redis.UniversalClient {
		name := role + "-" + rand.Text()
		for _, server := range servers {
			if err := server.Do(ctx, anyOf("acl setuser "+name+" >secret "+redisstore.AccessString(commands...))...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		client := connect(name)
		t.Cleanup(func() {
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			for _, server := range servers {
				removeUser(t, server, role, name)
			}
		})
		return client
	}
	return users{add("function", redisstore.Commands()), add("operator", redisstore.AdministrationCommands())}
}

// removeUser removes a user from a server. It checks that the server denied the user no command.
func removeUser(t testing.TB, server *redis.Client, role, name string) {
	t.Helper()
	denied, err := server.ACLLog(context.WithoutCancel(ctx), 1000).Result()
	if errors.Is(err, redis.ErrClosed) { // the test has killed the server
		return
	}
	if err != nil {
		t.Error(err)
	}
	for _, d := range denied {
		if d.Username == name {
			t.Errorf("access list of the %s: denied %s (%s, %s)", role, d.Object, d.Reason, d.Context)
		}
	}
	if err := server.ACLDelUser(ctx, name).Err(); err != nil {
		t.Error(err)
	}
}

func anyOf(words string) (all []any) {
	for word := range strings.FieldsSeq(words) {
		all = append(all, word)
	}
	return all
}

// store connects as the functions' user. It inspects and resets state as the operator's user.
type store struct {
	limiter.Store
	operator limiter.Store
}

func (s store) Inspect(ctx context.Context, subject limiter.Subject) ([]limiter.Entry, error) {
	return s.operator.Inspect(ctx, subject)
}

func (s store) Reset(ctx context.Context, subject limiter.Subject) error {
	return s.operator.Reset(ctx, subject)
}

func (u users) open(t testing.TB, o redisstore.Options) limiter.Store {
	t.Helper()
	return store{newStore(t, u.function, o), newStore(t, u.operator, o)}
}

func newStore(t testing.TB, client redisstore.Client, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.NewBare(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open returns a store that connects as the deployed users. The hooks are added to the functions'
// client.
func open(t testing.TB, o redisstore.Options, hooks ...redis.Hook) limiter.Store {
	t.Helper()
	u := deployed(t)
	for _, h := range hooks {
		u.function.AddHook(h)
	}
	return u.open(t, o)
}
