package storetest

import (
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/memstore"
)

var (
	pairsHistories = flag.Int("pairs.histories", 4, "number of histories of each pair in TestPairs")
	pairsSeed      = flag.Uint64("pairs.seed", 1, "seed of the first history of each pair in TestPairs")
	pairsOnly      = flag.String("pairs.only", "", "the only pair in TestPairs, such as \"lease local\"")
)

// Every mechanism, alone and with every other mechanism, keeps the limits in random histories.
func TestPairs(t *testing.T) {
	store := Must(memstore.New(memstore.Options{}))
	for i := range mechanisms {
		for j := i; j < len(mechanisms); j++ {
			if name := nameOfPair(i, j); *pairsOnly == "" || *pairsOnly == name {
				for n := range *pairsHistories {
					if !playPair(t, store, i, j, *pairsSeed+uint64(n)) {
						break
					}
				}
			}
		}
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

// NewLimit refuses exactly the pairs that the table lists, with the listed field.
func TestPairs_refused(t *testing.T) {
	h := &scenario{}
	for i := range mechanisms {
		for j := i + 1; j < len(mechanisms); j++ {
			rows := []*mechanism{&mechanisms[i], &mechanisms[j]}
			want := refused[rows[0].name+" "+rows[1].name]
			if rows[0].limit == nil || rows[1].limit == nil || want == "" && !joins(rows) {
				continue
			}
			var err error
			for n := range uint64(20) { // with some algorithm
				err = h.drawLimits(rand.New(rand.NewPCG(n, 0)), rows, true)
				if err == nil {
					break
				}
			}
			field := ""
			if of, ok := errors.AsType[*algo.FieldError](err); ok {
				field = of.Field
			}
			if field != want {
				t.Errorf("%s: got error %v, want one of the field %q", nameOfPair(i, j), err, want)
			}
		}
	}
}

// plain are the fields that are no mechanism of their own.
var plain = []string{"Name", "Rule", "ID", "Count", "Spread", "CountRequests"}

// Every field and value that configures a limit has a row in the table.
func TestPairs_complete(t *testing.T) {
	var want []string
	for prefix, of := range map[string]any{"": limiter.Limit{}, "Spread.": limiter.Spread{}, "Count.": limiter.Count{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if f.IsExported() {
				want = append(want, prefix+f.Name)
			}
		}
	}
	want = append(want, constants(t, "../internal/domain/count.go", "Counted")...)
	want = append(want, constants(t, "../internal/domain/failures.go", "OnError")...)
	covered := slices.Clone(plain)
	for _, m := range mechanisms {
		covered = append(covered, m.covers...)
	}
	slices.Sort(want)
	slices.Sort(covered)
	if !slices.Equal(covered, want) {
		t.Errorf("mechanisms: got rows for\n%v, want rows for\n%v", covered, want)
	}
}

func constants(t *testing.T, file, of string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			typed := false
			for _, s := range d.Specs {
				v := s.(*ast.ValueSpec)
				if id, ok := v.Type.(*ast.Ident); ok {
					typed = id.Name == of
				} else if v.Values != nil {
					typed = false
				}
				for _, name := range v.Names {
					if typed && ast.IsExported(name.Name) {
						names = append(names, name.Name)
					}
				}
			}
		}
		return true
	})
	if len(names) == 0 {
		t.Fatalf("%s: got no constants of %s", file, of)
	}
	return names
}

// A history is determined by its seed, and prints its steps.
func TestScenario_String(t *testing.T) {
	rows := []*mechanism{&mechanisms[0]}
	a, b := Must(newScenario(7, rows, true)), Must(newScenario(7, rows, true))
	if a.String() != b.String() || strings.Count(a.String(), "\n") < lengthOf {
		t.Errorf("got\n%s and\n%s, want the same history twice", a, b)
	}
}

// A request during a settlement fills the cache with a full count. The answer to the settlement is late, so the cache
// marks the next request although the store has room again.
func TestScenario_play_markedFromCache(t *testing.T) {
	rate := algo.Rate{Algorithm: algo.SlidingLog, Requests: 2, Window: time.Minute}
	h := &scenario{
		Environments: 1,
		Limits:       []limiter.Limit{{Name: "first", Rate: rate, Version: 1, Mark: true}, {Name: "all", Rate: rate, Version: 1}},
		Rates:        []algo.Rate{rate, rate},
		Steps: []move{
			{Kind: doTake, N: 2, Cost: 1},
			{Kind: doSettleLate, For: 2 * time.Second},
			{Kind: doPass, For: 5 * time.Second},
			{Kind: doTake, N: 1, Cost: 1},
			{Kind: doPass, For: 5 * time.Second},
			{Kind: doTake, N: 1, Cost: 1},
		},
	}
	if found := h.play(t, Must(memstore.New(memstore.Options{}))); found != (problem{}) {
		t.Error(found.text)
	}
}
