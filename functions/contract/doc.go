// Package contract defines the names that the functions and the infrastructure share: environment
// variables, IAM actions, attributes of tables, keys of the authorizer's context, header fields and
// metrics.
//
// It imports only the standard library. The tests of this package compare every name with the package that defines the
// name.
//
// All functions return new slices and are safe for concurrent use.
package contract
