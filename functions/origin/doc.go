// Package origin finds the address of the client behind a distribution or a proxy.
//
// A [Believed] names the header field that has the address. Every client can send such a field to the API itself, so it
// counts only if the request has the secret of [contract.OriginSecretField], which the distribution adds. Without it, the
// request is direct: its address is the source address, or it is refused.
//
// # Secrets
//
// The item [contract.OriginSecretsKey] of the records table has a current secret and, after a rotation, the previous one.
// Both are valid. The custom resource of a distribution creates the item ([Deploy]). [Rotate] replaces the current
// secret.
//
// A function reads the secrets again once a minute, so it may not know a new secret yet. So senders get the previous
// secret until [Settling] has passed after a rotation, and no sender has a secret that a function does not know. The item
// has the time at which a sender took the current secret. The next rotation can remove the previous one only when
// [Deploying] has passed since then.
package origin
