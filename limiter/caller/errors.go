package caller

import (
	"errors"
	"fmt"
)

// These are the errors of identification. Compare with errors.Is.
var (
	// ErrInvalidCredential reports that a credential is malformed, unknown, expired or forged.
	ErrInvalidCredential = errors.New("invalid credential")
	// ErrSuspended reports that the record of an API key is suspended. It wraps ErrInvalidCredential.
	ErrSuspended = fmt.Errorf("%w: suspended", ErrInvalidCredential)
	// ErrMissingCredential reports that a request lacks a required credential.
	ErrMissingCredential = errors.New("no credential")
	// ErrUnverified reports that a credential could not be verified, because the signing keys or the
	// API key records could not be read. It is not the caller's fault.
	ErrUnverified = errors.New("credential could not be verified")
	// ErrDirect reports that a request did not pass the distribution or the proxy in front.
	ErrDirect = errors.New("request did not pass the distribution")
)
