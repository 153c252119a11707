// Package redisstore keeps limits in Redis, Valkey or ElastiCache.
//
// A decision is one script call, whatever the number of limits on the subject: one
// round trip, one key, decided and written in one atomic step. The script takes the
// instant as an argument and touches only its declared key, as ElastiCache Serverless
// requires. It compares instants in two halves of 32 bits, because the numbers of a
// script have 53 bits.
//
// Concurrent calls of one process share pipelines: a call that finds two others in flight on its server
// waits until one of them returns, and is then sent together with the others that wait. A lone caller
// never waits. A call whose deadline passes first is not sent. If nothing returns for 10 ms, other calls
// are sent beside the stalled ones, at most 16 calls and pipelines at a time.
//
// A subject's value is eight bytes, and 16 to 18 bytes a limit with round numbers: 25 bytes for one
// limit, and at most 60 for three. A limit has its identity, its parameters and its state. The version
// of the rules that set it is kept once for all limits that share it. Logs have 8 bytes an entry.
// If the parameters differ from those of the charge, the script does not change the value. The store
// computes the new value, and replaces the old one if it is still the same.
//
// The index of a window has 32 bits: windows of one second count until February 2106,
// longer ones as many times longer.
//
// # What it needs
//
// Redis 7 or Valkey, alone or as a cluster: every call has one key. The user must be allowed to call
// [Commands], and [AdministrationCommands] for Inspect and Reset; [AccessString] returns an access
// list. [New] rejects a client that ignores deadlines (ContextTimeoutEnabled).
//
// Set maxmemory-policy to noeviction: a server that evicts keys drops live counts when a flood of
// identities fills it. Keys expire once their state counts nothing. The client sends a script once,
// because a retried one may charge twice: see [NoRetry].
package redisstore
