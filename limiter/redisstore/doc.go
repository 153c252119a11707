// Package redisstore keeps limits in Redis, Valkey or ElastiCache.
//
// A decision is one script call, whatever the number of limits on the subject: one
// round trip, one key, decided and written in one atomic step. The script takes the
// instant as an argument and touches only its declared key, as ElastiCache Serverless
// demands; instants are compared in two halves of 32 bits, because the numbers of a
// script hold 53.
//
// A subject's value is two bytes, 35 bytes a limit (its identity, its parameters, the
// version of the rules that set them, and its state), and 8 bytes an entry of a log.
// Where the parameters differ from the caller's, the script leaves the value alone; the
// store computes what becomes of it and replaces it if it is still the same.
//
// The index of a window has 32 bits: windows of one second count until February 2106,
// longer ones as many times longer.
//
// # What it needs
//
// Redis 7, or Valkey, alone or as a cluster: every call has one key. The user may call
// [Commands], and to inspect and reset [AdministrationCommands]; [AccessString] writes an access
// list. The client respects deadlines (ContextTimeoutEnabled), or [New] refuses it.
//
// Set maxmemory-policy to noeviction: a server that evicts drops live counts when a
// flood of identities fills it. Keys expire by themselves once their state is of no
// more use. The client sends a script once, because a retried one may charge twice: see NoRetry.
package redisstore
