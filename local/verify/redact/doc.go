// Package redact removes private values from texts that a user publishes.
//
// A [Redactor] keeps only words that it knows and short numbers. It replaces every other word by […]. So an
// account id, a host name or a user name does not remain only because its form or its encoding is unusual.
//
//	r := redact.New("The authorizer caches nothing.")
//	r.Text("arn:aws:iam::123456789012:user/alice caches nothing") // "arn:aws:iam[…]user/[…] caches nothing"
//
// The package knows the words of HTTP, AWS and Weir in words.txt. It does not know the words of a language, so a
// redacted text is sometimes hard to read.
package redact
