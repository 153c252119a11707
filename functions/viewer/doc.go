// Package viewer finds the address of the client behind a distribution or a proxy.
//
// A [Source] names the header field that has the address. Every client can send such a field to the API itself, so it
// counts only if the request has the secret in [contract.OriginSecretField], which the distribution or the proxy adds.
// Otherwise the source address counts, as the host gives it.
package viewer
