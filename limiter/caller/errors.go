package caller

import "errors"

// Errors of identification; compare with errors.Is.
var (
	// ErrInvalidCredential is a credential that is malformed, unknown, expired or forged.
	ErrInvalidCredential = errors.New("invalid credential")
	// ErrMissingCredential is a request without a credential where one is required.
	ErrMissingCredential = errors.New("no credential")
	// ErrUnverified is a credential that could not be checked because the signing keys or the
	// API key records could not be read. It is not the caller's fault.
	ErrUnverified = errors.New("credential cannot be checked")
)
