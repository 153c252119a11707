// Package rulestore keeps the versions of the rules document in the records table.
//
// [Source] is for functions: it reads the document in force by one read of one item. That item
// has the whole document, because an environment needs all rules. The read costs half a read unit
// for each 4 KB, once a minute.
//
// [Versions] is for operators. It publishes a document by one transaction of three items: the
// document in force, the version itself, and the history. If two publications are concurrent, one
// fails. The history lists exactly the versions that were in force.
package rulestore
