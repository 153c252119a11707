package template

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// problem is an invalid or unsupported part of a template, with its path.
type problem struct {
	path string // such as Resources.Limiter.Type
	text string
}

func (p problem) Error() string { return p.path + ": " + p.text }

type problems []problem

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, problem{path, fmt.Sprintf(format, args...)})
}

const mostProblems = 100

// err joins the problems, sorted by path, one line each. It returns nil if there are none.
func (p problems) err() error {
	slices.SortFunc(p, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.text, b.text))
	})
	var errs []error
	for i, each := range slices.Compact(p) {
		if i == mostProblems {
			errs = append(errs, fmt.Errorf("more than %d problems; the rest are not shown", mostProblems))
			break
		}
		errs = append(errs, each)
	}
	return errors.Join(errs...)
}
