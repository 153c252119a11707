// Package group implements group commit: requests that charge the same subject share store calls.
//
// At most one call is in flight for a subject. Requests that arrive meanwhile wait in a queue. When the
// call returns, the group answers the requests that the returned state refuses. The next call charges the
// sum of all other requests, at the latest instant of these requests. The result is the same as if the
// requests were charged one after the other, in order of arrival. If the store refuses the sum, the
// returned state decides which requests the next call charges.
//
// A request waits for two calls: the call in flight when the request arrives, and the call that charges
// the request. It waits for more calls only if other processes took the quota that the returned state
// still had. Then each call charges half of the requests that still fit.
package group
