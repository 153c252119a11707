// Package appconfig reads the rules document from AWS AppConfig through its agent, a Lambda extension
// that AWS provides as a layer.
//
// The agent listens on a local port in the function's environment, caches the document, and polls
// AppConfig while requests arrive. So a read calls no AWS service. A deployed document is in force
// after the interval of the agent (45 s) plus the interval of the reader (15 s), which is a minute.
//
// A document must contain its version, and the version must grow with every change. The version numbers
// of AppConfig are not suitable, because they differ by profile and a rollback lowers them. A rollback in
// AppConfig also lowers the version in the document, so the function logs it and keeps the newer rules.
// To restore old rules, deploy the old document with a higher version.
package appconfig
