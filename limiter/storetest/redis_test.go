package storetest

import (
	"crypto/rand"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/redisstore"
)

func init() { openers["redis"] = onRedis }

func onRedis(t *testing.T) opener {
	client, namespace := Must(redisstore.NewClient(Server(t, "redis", "REDIS_URL"), redisstore.ClientOptions{})), "limiter-"+rand.Text()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return func() limiter.Store {
		return Must(redisstore.NewBare(client, redisstore.Options{Namespace: namespace}))
	}
}
