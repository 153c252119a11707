// Package live keeps rules current while requests arrive. It reloads the document from a [Source]
// within a minute of a change and needs no background goroutine. A request costs two atomic loads,
// unless a reload is due.
package live
