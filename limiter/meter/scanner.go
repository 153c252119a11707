package meter

import (
	"bytes"
	"encoding/json"
)

// These constants bound the memory of a scanner.
const (
	maxDepth = 512 // open containers
	maxToken = 512 // bytes of a token that is kept; a name with escapes has six bytes for a character
)

// scanner finds the values at paths in JSON texts that follow each other. Between tokens it is not strict: it accepts what a
// JSON parser accepts, and more. It is broken after a bracket that closes nothing and below maxDepth.
type scanner struct {
	names  [][]string
	wanted Set // the paths to find
	// found gets the token at the paths of a set: a number, a word, or a string with its opening quote. It gets nil for a
	// container, and for a token above maxToken.
	found func(at Set, token []byte)
	ended func(complete bool) // called after each text

	depth  int
	lists  [maxDepth/64 + 1]uint64 // bit d: the container at depth d is a list
	open   [maxNames + 1]Set       // the paths whose names lead to the object at a depth
	seen   [maxNames + 1]Set       // those of them that have matched a member of the object
	next   Set                     // the paths that lead to the next value
	name   bool                    // the next string is a name
	in     place
	kept   bool // token has the bytes of the token
	token  []byte
	broken bool

	strict    bool // look for ambiguous names
	ambiguous Set  // paths with a name that is repeated in an object, or differs only in case
}

// place is where the next byte is.
type place byte

const (
	between  place = iota // tokens
	inString              // behind the opening quote
	escaped               // in a string, behind a backslash
	inWord                // a number, true, false or null
)

// reset begins a new text. The present one is not complete.
func (s *scanner) reset() {
	s.ended(false)
	s.depth, s.next, s.name, s.in, s.broken = 0, 0, false, between, false
}

// Write reads the next bytes.
func (s *scanner) Write(p []byte) {
	for i := 0; i < len(p) && !s.broken; i++ {
		c := p[i]
		switch s.in {
		case inString, escaped:
			if !s.kept && s.in == inString {
				i += plain(p[i:])
				if i == len(p) {
					return
				}
				c = p[i]
			}
			s.inString(c)
		case inWord:
			if !isDelimiter(c) {
				s.keep(c)
				continue
			}
			s.in = between
			s.scalar()
			s.between(c)
		case between:
			s.between(c)
		}
	}
}

// plain returns the number of bytes before a quote or a backslash.
func plain(p []byte) int {
	for i, c := range p {
		if c == '"' || c == '\\' {
			return i
		}
	}
	return len(p)
}

func isDelimiter(c byte) bool {
	switch c {
	case '{', '}', '[', ']', ',', ':', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

func (s *scanner) inString(c byte) {
	switch {
	case s.in == escaped:
		s.in = inString
		s.keep(c)
	case c == '\\':
		s.in = escaped
		s.keep(c)
	case c != '"':
		s.keep(c)
	case s.name:
		s.in, s.name = between, false
		s.next = s.member()
	default:
		s.in = between
		s.scalar()
	}
}

// between handles a byte between tokens.
func (s *scanner) between(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n', ':':
	case '{', '[':
		s.enter(c == '[')
	case '}', ']':
		s.leave(c == ']')
	case ',':
		s.name, s.next = s.depth > 0 && !s.isList(), 0
	case '"':
		s.begin(inString, c)
	default:
		s.begin(inWord, c)
	}
}

func (s *scanner) isList() bool { return s.lists[s.depth/64]>>(s.depth%64)&1 == 1 }

func (s *scanner) enter(list bool) {
	if s.depth == 0 {
		s.next = s.wanted
	} else if at := s.ends(); at != 0 {
		s.found(at, nil)
	}
	s.depth++
	if s.depth > maxDepth {
		s.broken = true
		return
	}
	bit := uint64(1) << (s.depth % 64)
	s.lists[s.depth/64] &^= bit
	if list {
		s.lists[s.depth/64] |= bit
		s.next = 0
	}
	if s.depth <= maxNames {
		s.open[s.depth], s.seen[s.depth] = s.next, 0
	}
	s.name, s.next = !list, 0
}

func (s *scanner) leave(list bool) {
	if s.depth == 0 || s.isList() != list {
		s.broken = true
		return
	}
	s.depth--
	s.name, s.next = false, 0
	if s.depth == 0 {
		s.ended(true)
	}
}

// begin begins a token. It keeps the names of members that a path can have, and the values at a path.
func (s *scanner) begin(in place, c byte) {
	s.in, s.token = in, s.token[:0]
	if s.name {
		s.kept = s.depth <= maxNames && s.open[s.depth] != 0
	} else {
		s.kept = s.ends() != 0
	}
	s.keep(c)
}

func (s *scanner) keep(c byte) {
	if s.kept && len(s.token) <= maxToken {
		s.token = append(s.token, c)
	}
}

// ends returns the paths that end at the next value.
func (s *scanner) ends() (at Set) {
	for i := range s.next.each {
		if len(s.names[i]) == s.depth {
			at |= 1 << i
		}
	}
	return at
}

// scalar handles the end of a value that is no container.
func (s *scanner) scalar() {
	if s.kept {
		if token := s.token; len(token) <= maxToken {
			s.found(s.ends(), token)
		} else {
			s.found(s.ends(), nil)
		}
	}
	s.next = 0
}

// member returns the paths that lead to the value of the member whose name was read.
func (s *scanner) member() (set Set) {
	if !s.kept || len(s.token) > maxToken {
		return 0
	}
	name := s.token[1:]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquoted(s.token))
	}
	at := s.depth - 1
	for i := range s.open[s.depth].each {
		switch path := s.names[i]; {
		case at >= len(path):
		case path[at] == string(name):
			set |= 1 << i
		case s.strict && bytes.EqualFold(name, []byte(path[at])):
			s.ambiguous |= 1 << i
		}
	}
	s.ambiguous |= set & s.seen[s.depth]
	s.seen[s.depth] |= set
	return set
}

// unquoted returns the value of a string token, which lacks its closing quote. It returns "" if the token is no JSON string.
func unquoted(token []byte) (text string) {
	_ = json.Unmarshal(append(bytes.Clone(token), '"'), &text)
	return text
}
