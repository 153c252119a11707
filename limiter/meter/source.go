package meter

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Most is the largest cost of a request, and the largest number that is read from a body.
const Most = 999_999_999_999_999

// MaxPaths is the largest number of paths in one document of rules.
const MaxPaths = 64

// These constants bound a path.
const (
	maxNames = 8
	maxName  = 64 // bytes
)

// Set is a set of paths. The zero value is empty.
type Set uint64

func (s Set) each(yield func(int) bool) {
	for ; s != 0; s &= s - 1 {
		if !yield(bits.TrailingZeros64(uint64(s))) {
			return
		}
	}
}

// Paths are the paths of the sources of one document. The zero value has none.
type Paths struct{ names [][]string }

// Add adds alternative paths, such as "usage.input_tokens|message.usage.input_tokens", and returns their set. A path has the
// names of nested members, joined by dots. The error says what is allowed instead.
func (p *Paths) Add(text string) (s Set, err error) {
	for path := range strings.SplitSeq(text, "|") {
		names := strings.Split(path, ".")
		if len(names) > maxNames || slices.ContainsFunc(names, func(n string) bool { return !isName(n) }) {
			return 0, fmt.Errorf(`want 1 to %d names of members, joined by dots, such as "usage.total_tokens"; "|" separates alternatives`, maxNames)
		}
		i := slices.IndexFunc(p.names, func(known []string) bool { return slices.Equal(known, names) })
		if i < 0 {
			i, p.names = len(p.names), append(p.names, names)
		}
		if i >= MaxPaths {
			return 0, fmt.Errorf("want at most %d different paths in a document", MaxPaths)
		}
		s |= 1 << i
	}
	return s, nil
}

// Text returns the paths of a set in the form that Add reads, in the order of the document.
func (p *Paths) Text(s Set) string {
	var paths []string
	for i := range s.each {
		paths = append(paths, strings.Join(p.names[i], "."))
	}
	return strings.Join(paths, "|")
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// OtherValues is the key of the weights for all values that have none.
const OtherValues = "*"

// Source says how the bodies of a request and its answer determine the cost of the request on a limit.
type Source struct {
	Paths *Paths
	// Fields are the numbers in the answer. The cost is their sum, each multiplied by its weight. Without them, the API reports
	// the cost.
	Fields []Set
	// Weights has a weight for each of Fields, or one without Fields, by the value that the request has at By or in Parameter.
	// With neither, or for other values, those under OtherValues apply.
	Weights   map[string][]int64
	By        Set    // in the body of the request
	Parameter string // name of a path parameter
	// Reserve is the number in the body of the request that is reserved, from 1 to MostReserve, times the highest weight. Without a
	// number it is Default. If the set is empty, the reserve does not depend on the request.
	Reserve              Set
	Default, MostReserve int64
}

// ofRequest returns the paths in the body of the request.
func (s *Source) ofRequest() Set { return s.By | s.Reserve }

// Largest returns the largest reserve of a request.
func (s *Source) Largest() (most int64) {
	for _, weights := range s.Weights {
		for _, w := range weights {
			most = max(most, product(s.MostReserve, w))
		}
	}
	return most
}

func (s *Source) weights(value string) []int64 {
	if w, ok := s.Weights[value]; ok {
		return w
	}
	return s.Weights[OtherValues]
}

// product returns a·b, at most Most. Neither is negative.
func product(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > Most {
		return Most
	}
	return int64(low)
}
