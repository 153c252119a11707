// Package dynamostore keeps limits in a DynamoDB table.
//
// A decision is one conditional UpdateItem, whatever the number of limits on the subject: one round
// trip, no read, and one write unit as long as the item has at most 1 KB. Package rules keeps the
// items of a document within that, or within eight units if they hold logs (see RULES.md, "Items").
// An application that makes limits itself has to keep its items small. The item holds for each limit
// its state, the parameters under which the state was written (a readable fingerprint), and the
// version of the rules that set them:
//
//	pk             S  namespace/format/subject
//	ttl            N  seconds; set by every write, only frees space
//	f<id> v<id>    S N  fingerprint, rules version; written at the first write or a conversion
//	t<id> g<id>    N N  bucket: TAT in ns; number of refunds
//	x<id>          N    window: newest index charged
//	c<id><index>   N    window: count of one index, which is in base 36
//	l<id> n<id>    L N  log: instants of the last requests, oldest first; newest of all ever
//	a<id>          L    mark of a state too far ahead of a clock (algo.Clamp): two numbers
//
// # How one write can be exact
//
// A bucket is busy if its TAT is ahead of now. A busy bucket gets "add the increment, if TAT is not
// past the latest that allows it". Additions commute, so concurrent callers do not collide. An idle
// bucket gets "set TAT to now plus the increment, if it is not ahead of now". An environment that made
// the bucket busy knows which update applies. Otherwise it guesses the update that recently applied to
// the limit.
//
// A window keeps one count per index, so no count is ever reset. If the previous count is known, the
// condition is "count <= room". An environment without a state of the caller sends a ladder instead:
// (previous <= N/8 and count <= m1) or (previous <= 2N/8 and count <= m2) and so on. Each rung is
// rounded toward refusing. The condition also contains the exact test for an index without a count. So
// this environment also needs one call, unless the caller is near its limit.
//
// A log appends its instants if the list has room, without the entries at its head that are known
// to have expired. The list never holds more than twice what the limit allows: expired entries are
// cut off once there are as many as live ones, or by the charge itself. An entry takes
// 12 bytes, so a write costs a unit for each 85 entries that the list holds: a log of 100
// costs 1 to 3, and the largest, of 328, up to 8.
//
// A request after a pause adds a count and removes the two counts whose names it knows. A second
// update removes other dead counts: at once from an item above 512 bytes in which a limit has
// three counts, otherwise when there are more than eight.
//
// When the condition fails, DynamoDB returns the item. If the item refuses, that is
// the answer, with the exact wait. If not, the guess was wrong, and the next attempt
// is built from the item. With k limits on the subject there are at most k+1 attempts if the denial
// cache has their states, and k+2 if not. Each of these events in between adds one: a window
// moved on, a log grew, a refund landed, a limit was converted, or a bucket that was wrongly guessed
// to be busy became so. The instant stays the same.
//
// # What it needs
//
// [Actions] on the table, and [AdministrationActions] for Inspect and Reset. The table's key is
// [KeyAttribute], its TTL attribute [TTLAttribute]. A failed condition costs a write unit; because of
// [limiter.Options].CacheTTL a refused flood does not cost one for each request.
package dynamostore
