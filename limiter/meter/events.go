package meter

import "bytes"

// events passes the data of the events in a text/event-stream on to a scanner. An event whose data is no JSON, such as [DONE],
// has no values.
type events struct {
	scanner *scanner
	mark    int  // bytes of byteOrderMark that the stream begins with; len(byteOrderMark) after its place
	matched int  // bytes of dataField that the line begins with; otherLine for another line
	cr      bool // the last byte was a carriage return, so that a line feed ends no line
	empty   bool // the line is empty so far
}

const (
	dataField = "data:"
	otherLine = -1

	byteOrderMark = "\ufeff" // ignored at the start of a stream
)

func (e *events) Write(p []byte) {
	for i := 0; i < len(p); i++ {
		c := p[i]
		if e.mark < len(byteOrderMark) {
			if c == byteOrderMark[e.mark] {
				e.mark++
				continue
			}
			e.mark = len(byteOrderMark)
		}
		after := e.cr
		e.cr = c == '\r'
		switch {
		case c == '\n' && after:
		case c == '\n' || c == '\r':
			e.newline()
		case e.matched == len(dataField) || e.matched == otherLine:
			n := bytes.IndexAny(p[i:], "\r\n")
			if n < 0 {
				n = len(p) - i
			}
			if e.matched == len(dataField) {
				e.scanner.Write(p[i : i+n])
			}
			i += n - 1
		case c == dataField[e.matched]:
			e.matched++
		default:
			e.matched = otherLine
		}
		e.empty = e.empty && (c == '\n' || c == '\r')
	}
}

// newline ends a line. An empty line ends an event.
func (e *events) newline() {
	if e.empty {
		e.scanner.reset()
	} else if e.matched == len(dataField) {
		e.scanner.Write([]byte{'\n'})
	}
	e.matched, e.empty = 0, true
}
