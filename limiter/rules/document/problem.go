package document

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one mistake in a document or one note on it.
type Problem struct {
	Path    string `json:"path"`             // such as rules[0].limits.free.requests; empty for the whole document
	Line    int    `json:"line,omitempty"`   // counts from 1; 0 if the problem has no place in the document
	Column  int    `json:"column,omitempty"` // place of a syntax error in its line; counts bytes from 1
	Message string `json:"message"`          // what was found and what is allowed
}

// String returns the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ", column %d", p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Message
}

// In returns the problem in one line that begins with its place in a file. Compilers and editors use
// this format: "rules.json:3:7: rules[0].endpoint: required".
func (p Problem) In(file string) string {
	if p.Line > 0 {
		file += ":" + strconv.Itoa(p.Line)
	}
	if p.Column > 0 {
		file += ":" + strconv.Itoa(p.Column)
	}
	p.Line, p.Column = 0, 0
	return file + ": " + p.String()
}

// Problems are all mistakes of a document, in file order.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds the reported mistakes, so a hostile document has a short report.
const maxProblems = 100

type report struct {
	text  []byte
	root  *node
	found []located
	notes []located
	more  bool // there are more mistakes than maxProblems
}

// located is a problem with its offset in the text.
type located struct {
	Problem
	offset int
}

func (r *report) add(path, format string, args ...any) {
	if r.hasRoom() {
		r.found = append(r.found, r.locate(path, fmt.Sprintf(format, args...)))
	}
}

// at is like add for the path of n.
func (r *report) at(n *node, format string, args ...any) {
	if r.hasRoom() {
		r.found = append(r.found, r.place(n, n.path(), fmt.Sprintf(format, args...)))
	}
}

func (r *report) hasRoom() bool {
	r.more = r.more || len(r.found) == maxProblems
	return !r.more
}

func (r *report) place(n *node, path, message string) located {
	return located{Problem{Path: path, Line: line(r.text, int(n.offset)), Message: message}, int(n.offset)}
}

// syntax reports the place where the text is not valid JSON.
func (r *report) syntax(s *scanner) {
	column := s.at - bytes.LastIndexByte(r.text[:s.at], '\n')
	r.found = append(r.found, located{Problem{Line: line(r.text, s.at), Column: column, Message: s.mistake}, s.at})
}

// mistakes returns the mistakes in file order. If there are too many, the last entry reports this.
func (r *report) mistakes() Problems {
	all := problems(r.found)
	if r.more {
		all = append(all, Problem{Message: fmt.Sprintf("more than %d problems; the rest are not shown", maxProblems)})
	}
	return all
}

// locate finds the node at a path. A missing node gets the line of its closest parent, and sorts
// after everything on this line that the parent contains.
func (r *report) locate(path, message string) located {
	if r.root == nil {
		return located{Problem{Path: path, Message: message}, 0}
	}
	n, rest := r.root, path
	for rest != "" {
		child, after := n.child(rest)
		if child == nil {
			missing := r.place(n, path, message)
			missing.offset = int(n.end)
			return missing
		}
		n, rest = child, after
	}
	return r.place(n, path, message)
}

// problems returns list in the order of the lines, and on a line in file order.
func problems(list []located) (sorted Problems) {
	slices.SortStableFunc(list, func(a, b located) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.offset, b.offset)) })
	for _, l := range list {
		sorted = append(sorted, l.Problem)
	}
	return sorted
}
