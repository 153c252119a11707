package rules

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a document.
type Problem struct {
	Path    string `json:"path"`    // rules[0].limits.free.requests; empty for the document as a whole
	Message string `json:"message"` // what was found and what is allowed
}

// String returns the problem in one line.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Problems are all mistakes of a document, in file order. It is the error of Parse.
type Problems []Problem

// mostProblems is how many mistakes are reported: enough to mend a document, and
// little enough for a hostile one.
const mostProblems = 100

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// add notes a problem.
func (p *Problems) add(path, format string, args ...any) {
	switch {
	case len(*p) < mostProblems:
		*p = append(*p, Problem{path, fmt.Sprintf(format, args...)})
	case len(*p) == mostProblems:
		*p = append(*p, Problem{"", fmt.Sprintf("more than %d problems; the rest are not shown", mostProblems)})
	}
}
