package scenario

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Scenario is something to play. Its zero value has no meaning: start from one of All.
type Scenario interface {
	// Name is what it is called in a URL.
	Name() string
	// Parameters are what it is played with.
	Parameters() []Parameter
	// Play plays it. The result is made for JSON; an error is about the parameters.
	Play() (any, error)
}

// All returns every scenario with the parameters that it has unless told otherwise.
func All() []Scenario {
	return []Scenario{
		&Bucket{Capacity: 20, Rate: 10, Arrivals: Arrivals{Burst: 30, Offered: 15, Seconds: 4}},
		&Boundary{Limit: 20, Percent: 85},
		&Sync{Limit: 60, Nodes: 3, Interval: 400, Offered: 90},
		&Algorithms{Capacity: 20, Rate: 10, Arrivals: Arrivals{Burst: 30, Offered: 15, Seconds: 6}},
	}
}

// Parameter is a number that a scenario is played with.
type Parameter struct {
	Name        string // in a URL
	Label       string // for people, with the unit
	Value       *int64
	Least, Most int64
}

// Set sets parameters of a scenario by the names in a query. Those that it does not name
// keep their value. The error is one line: the first that is wrong, and what is allowed.
func Set(s Scenario, query url.Values) error {
	parameters := s.Parameters()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		i := slices.IndexFunc(parameters, func(p Parameter) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("%.40q: unknown, want some of %s", name, names(parameters))
		}
		p, values := parameters[i], query[name]
		n, err := strconv.ParseInt(values[0], 10, 64)
		if len(values) > 1 || err != nil || n < p.Least || n > p.Most {
			return fmt.Errorf("%s: got %.40q, want %d to %d", name, strings.Join(values, " and "), p.Least, p.Most)
		}
		*p.Value = n
	}
	return nil
}

func names(parameters []Parameter) string {
	var list []string
	for _, p := range parameters {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}
