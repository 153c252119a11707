// Package group implements group commit: requests that charge the same subject share store calls.
//
// At most one call is in flight for a subject. Requests that arrive meanwhile wait in a queue. When the call returns,
// the group answers the requests that the returned state refuses. The next call charges the sum of all other
// requests, at the latest of their instants. The result is the same as if the store charged the requests one after
// the other. If the store refuses the sum, the returned state decides which requests the next call charges.
//
// Usually a request waits for two calls: the call in flight when it arrives, and the call that charges it. It waits
// longer if other processes took the quota that the returned state still had. Then each call charges half of the
// requests that still fit.
package group
