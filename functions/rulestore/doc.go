// Package rulestore keeps the versions of the rules document in the records table.
//
// [Source] is for functions. It reads the document in force with one read of one item. This item
// contains the whole document, because an environment needs all rules. The read costs half a read
// unit for each 4 KB, once a minute.
//
// [Versions] is for operators. It publishes a document in one transaction that writes three items:
// the document in force, the version, and the history. If two publications are concurrent, one fails.
// The history lists exactly the versions that were in force.
//
// [Publisher] is for deployments. It publishes the document of a stack in an item of its own.
package rulestore
