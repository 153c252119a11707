// Package appconfig reads the rules document from AWS AppConfig through its agent, a Lambda
// extension that AWS provides as a layer.
//
// The agent listens on a port of the function's own machine, caches the document, and polls AppConfig
// while requests arrive. So a read calls no AWS service. A deployed document is in force
// after the interval of the agent plus that of the reader: 45 and 15 s are a minute.
//
// A document must contain its version, which must grow with every change: AppConfig's version numbers
// belong to profiles, and a rollback in AppConfig would lower them. For the same reason a rollback in
// AppConfig does not restore old rules, and the function logs that. To go back, deploy the old
// document with a higher version.
package appconfig
