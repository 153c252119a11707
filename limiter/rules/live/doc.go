// Package live keeps rules current while requests arrive: it reloads the document from a [Source]
// within a minute of a change, and needs no goroutine in the background. A request pays two
// atomic loads for it, unless a reload is due.
package live
