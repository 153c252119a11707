// Package live keeps rules current while requests arrive. It reloads the document from a [Source]
// within a minute of a change, without a goroutine in the background. A request costs two atomic
// loads, unless a reload is due.
package live
