package scenario

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Scenario is a demonstration with parameters. Its zero value is not valid. All returns valid
// scenarios.
type Scenario interface {
	// Name returns the scenario's name in a URL.
	Name() string
	// Parameters returns the scenario's parameters. Set changes their values.
	Parameters() []Parameter
	// Play runs the scenario and returns a result that marshals to JSON. An error describes an
	// invalid parameter.
	Play() (any, error)
}

// All returns every scenario with its default parameters.
func All() []Scenario {
	return []Scenario{
		&Bucket{Capacity: 20, Rate: 10, Arrivals: Arrivals{Burst: 30, Offered: 15, Seconds: 4}},
		&Boundary{Limit: 20, Percent: 85},
		&Sync{Limit: 60, Nodes: 3, Interval: 400, Offered: 90},
		&Algorithms{Capacity: 20, Rate: 10, Arrivals: Arrivals{Burst: 30, Offered: 15, Seconds: 6}},
		&Tokens{Limit: 1000, Reserve: 100, Short: 60, Long: 600, AnswerTime: 2000, Offered: 2},
		&Ceiling{Limit: 50, Percent: 60, Free: 100, Paid: 20},
	}
}

// Parameter is one number that the user can change.
type Parameter struct {
	Name        string // name in the URL's query
	Label       string // label in the form, with the unit
	Value       *int64
	Least, Most int64
}

// Set sets the parameters that query contains and keeps the others. The error is one line about the
// first invalid parameter.
func Set(s Scenario, query url.Values) error {
	parameters := s.Parameters()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		i := slices.IndexFunc(parameters, func(p Parameter) bool { return p.Name == name })
		if i < 0 {
			return fmt.Errorf("%.40q: unknown parameter (want %s)", name, names(parameters))
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
