// Package redisstore keeps limits in Redis, Valkey or ElastiCache. [Open] and [New] return a store with a circuit
// breaker and a deadline of 50 ms (package resilient), [NewBare] one without.
//
// A decision is one script call for any number of limits on the subject. It needs one round trip and one
// key. The script decides and writes in one atomic step. The script takes the instant as an argument and
// touches only its declared keys, as ElastiCache Serverless requires. It compares instants in two halves
// of 32 bits, because the numbers of a script have 53 bits.
//
// Concurrent calls of one process share pipelines. If two calls are in flight on a server, a further
// call waits until one of them returns. All waiting calls are then sent in one pipeline. Without
// concurrent calls, a call never waits. A waiting call whose deadline passes is not sent. If nothing
// returns for 10 ms, waiting calls are sent beside the stalled calls. At most 16 calls and pipelines are
// in flight at the same time, and besides them at most one call a second that also requests the server's time. Calls that
// a server of a cluster redirects are sent alone, 16 at a time.
//
// A subject's value has one byte, and for each limit its id, its parameters as text, the version of the rules and its
// state: 50 bytes for a limit of 1,000 an hour, and about 150 for three limits. A log has 8 more bytes for each entry. If
// the parameters differ from those of the charge, the script does not change the value. The store then computes the
// new value. It replaces the old value if no other process has changed it.
//
// The index of a window has 32 bits: windows of one second work until February 2106. Longer windows work
// for proportionally longer.
//
// # What it needs
//
// Redis 7 or Valkey, alone or as a cluster: all keys of a call are in one slot. The user must be allowed to call
// [Commands], and [AdministrationCommands] for Inspect and Reset; [AccessString] returns an access
// list. [New] rejects a client that ignores deadlines (ContextTimeoutEnabled).
//
// Set maxmemory-policy to noeviction: a server that evicts keys drops live counts when a flood of
// identities fills it. Keys expire once their state counts nothing, at most a quarter later. The client sends a script once,
// because a retried script can charge twice: see [NoRetry].
package redisstore
