// Package appconfig reads the rules document from AWS AppConfig by its agent, the Lambda
// extension that AWS gives as a layer.
//
// The agent listens at a port of the function's own machine, keeps what it has fetched, and asks
// AppConfig again by itself while requests come. So a read costs no call of AWS, and a document
// that AppConfig has deployed is in force within the agent's interval and that of
// the reader together: 45 and 15 s make the minute.
//
// A document says its own version, which grows with every change: AppConfig's numbers are those
// of profiles, and a rollback of AppConfig's would lower them. For the same reason such a rollback
// brings no rules back, which is told in the log; deploy the old document with a higher version.
package appconfig
