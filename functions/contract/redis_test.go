package contract_test

import (
	"testing"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/redisstore"
)

func TestCacheAccess(t *testing.T) {
	if got := redisstore.AccessString(redisstore.Commands()...); contract.CacheAccess != got {
		t.Errorf("access of the store: got %q, want %q", contract.CacheAccess, got)
	}
}
