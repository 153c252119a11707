package storetest

import (
	mathrand "math/rand/v2"
	"testing"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/dynamostore/memtable"
	"github.com/weir-limits/weir/limiter/memstore"
)

// TestLimiter tests what a Limiter promises on each store. Run tests the stores alone.
func TestLimiter(t *testing.T) {
	for name, connect := range openers {
		t.Run(name, func(t *testing.T) {
			open := connect(t)
			t.Run("Spread", func(t *testing.T) { testSpread(t, open) })
			t.Run("Rate", func(t *testing.T) { testRate(t, open) })
			t.Run("Pairs", func(t *testing.T) { testPairs(t, open) })
		})
	}
}

// openers are the stores. Redis adds itself in a file of its own.
var openers = map[string]func(*testing.T) opener{"memory": inMemory, "dynamodb": onDynamoDB}

// opener returns the store of one more process. All its stores share their state.
type opener func() limiter.Store

func inMemory(*testing.T) opener {
	store := Must(memstore.New(memstore.Options{}))
	return func() limiter.Store { return store }
}

// onDynamoDB returns stores on a table in memory, which answers as DynamoDB does (TestStore of dynamostore).
func onDynamoDB(*testing.T) opener {
	table := &memtable.Table{}
	return func() limiter.Store {
		return Must(dynamostore.NewBare(table, dynamostore.Options{Table: "t", Namespace: "limiter"}))
	}
}

// testPairs plays histories of random pairs of mechanisms. TestPairs plays all pairs.
func testPairs(t *testing.T, open opener) {
	store := open()
	for seed := range uint64(40) {
		r := mathrand.New(mathrand.NewPCG(seed, 4))
		playPair(t, store, r.IntN(len(mechanisms)), r.IntN(len(mechanisms)), seed)
	}
}
