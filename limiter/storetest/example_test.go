package storetest_test

import (
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The test of a store runs the whole suite.
func ExampleRun() {
	_ = func(t *testing.T) { // in a test file: func TestStore(t *testing.T)
		storetest.Run(t, storetest.Suite{Open: func(*testing.T) limiter.Store {
			return storetest.Must(memstore.New(memstore.Options{}))
		}})
	}
}
