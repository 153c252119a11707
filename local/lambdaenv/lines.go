package lambdaenv

import "bytes"

// maxLine is how much of what a process writes is kept until a line is complete.
const maxLine = 64 << 10

// lines hands on what is written to it line by line, without the ends of lines. A longer
// one than maxLine comes in parts. The zero value hands on to nobody.
type lines struct {
	each func(line []byte)
	rest []byte // of a line that is not complete
	last []byte // of the lines
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found && len(l.rest) <= maxLine {
			return len(b), nil
		}
		if !found {
			line, rest = l.rest[:maxLine], l.rest[maxLine:]
		}
		l.emit(line)
		l.rest = append([]byte(nil), rest...)
	}
}

// close hands on what is left. Nothing may be written any more.
func (l *lines) close() {
	if len(l.rest) > 0 {
		l.emit(l.rest)
		l.rest = nil
	}
}

func (l *lines) emit(line []byte) {
	l.last = bytes.Clone(line)
	if l.each != nil {
		l.each(line)
	}
}
