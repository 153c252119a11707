package storetest

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-limits/weir/limiter"
)

// testPairs plays histories of random pairs of mechanisms. TestPairs plays all pairs.
func testPairs(t *testing.T, s Suite) {
	store := s.Open(t)
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 4))
		playPair(t, store, r.IntN(len(mechanisms)), r.IntN(len(mechanisms)), seed)
	}
}

func nameOfPair(i, j int) string {
	if i == j {
		return mechanisms[i].name
	}
	return mechanisms[i].name + " " + mechanisms[j].name
}

// playPair plays one history of two mechanisms, or of one. If the history fails, playPair prints the shortest history
// that fails in the same way, and returns false.
func playPair(t *testing.T, store limiter.Store, i, j int, seed uint64) bool {
	t.Helper()
	rows := []*mechanism{&mechanisms[i], &mechanisms[j]}
	if i == j {
		rows = rows[:1]
	}
	h, err := newScenario(seed<<16|uint64(i<<8|j), rows, i == j || seed%2 == 0 && joins(rows))
	if err != nil {
		t.Fatalf("%s: %v", nameOfPair(i, j), err)
	}
	found := h.play(t, store)
	if found == (problem{}) {
		return true
	}
	least := h.minimized(func(less *scenario) bool { return less.play(t, store).kind == found.kind })
	t.Errorf("%s, seed %d: %s\nshortest: %s\n%s", nameOfPair(i, j), seed, found.text, least.play(t, store).text, least)
	return false
}
