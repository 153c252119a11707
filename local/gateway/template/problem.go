package template

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// problem is an invalid or unsupported part of a template.
type problem struct {
	path string // place in the template, such as Resources.Limiter.Type
	text string
}

func (p problem) Error() string { return p.path + ": " + p.text }

// problems collects all problems of a template.
type problems []problem

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, problem{path, fmt.Sprintf(format, args...)})
}

// mostProblems is the maximum number of reported problems.
const mostProblems = 100

// err joins the problems in the order of their paths, one line each, or returns nil.
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
