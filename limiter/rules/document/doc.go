// Package document reads a rules document. It parses the JSON and checks each value separately.
// Package rules checks what depends on several limits, such as whether they fit one item.
//
// [Parse] never stops at the first mistake. Every mistake has its path in the document and its line.
package document
