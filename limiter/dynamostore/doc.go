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
//	l<id>          L    log: instants of the last requests, in the order of the appends
//	n<id>          L    log: stamp of the list since its last rewrite, three numbers
//	x<id>          N    log: interval of 2.5 s in which the newest entry is
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
// An update has no maximum, so one expression cannot apply to both. A guess without the state is wrong
// as often as the bucket is in the rarer state: for Poisson arrivals at half the limit, half of the
// time, which makes 1.5 requests a decision. A list of pending instants, which a later write adds up,
// would need no guess; it takes some 60 bytes a limit, and ten buckets would not fit a write unit.
//
// A window keeps one count per index, so no count is ever reset. If the previous count is known, the
// condition is "count <= room". An environment without a state of the caller sends a ladder instead:
// (previous <= N/8 and count <= m1) or (previous <= 2N/8 and count <= m2) and so on. Each rung is
// rounded toward refusing. The condition also contains the exact test for an index without a count. So
// this environment also needs one call, unless the caller is near its limit.
//
// A log appends its instants if the list has room, with all entries or without those at its head that
// are known to have expired. The condition does not name the newest entry, so concurrent appends do
// not collide. A process whose clock is behind appends an older instant; the entry counts at the newest
// instant before it. The stamp has a random generation, which every write but an append replaces: while
// it is the same, an entry that was at a position is still there. The interval shows that no entry is
// too far ahead of the clock (algo.Clamp).
//
// The list never holds more than twice what the limit allows. About every 40 requests one of them
// removes the entries that have expired, in an update of its own: appends that happen meanwhile stay.
// An entry takes 12 bytes, so a write costs a unit for each 85 entries that the list holds: a log of
// 100 costs 1 to 3, and the largest, of 327, up to 8.
//
// A request after a pause adds a count and removes the two counts whose names it knows. A second
// update removes other dead counts: at once from an item above 512 bytes in which a limit has
// three counts, otherwise when there are more than eight.
//
// When the condition fails, DynamoDB returns the item. If the item refuses, that is
// the answer, with the exact wait. If not, the guess was wrong, and the next attempt
// is built from the item. With k limits on the subject there are at most k+1 attempts if the denial
// cache has their states, and k+2 if not. Each of these events in between adds one: a window or the
// interval of a log moved on, a log was trimmed, a refund landed, a limit was converted, or a bucket
// that was wrongly guessed to be busy became so. The instant stays the same.
//
// # What it needs
//
// [Actions] on the table, and [AdministrationActions] for Inspect and Reset. The table's key is
// [KeyAttribute], its TTL attribute [TTLAttribute]. A failed condition costs a write unit; because of
// [limiter.Options].CacheTTL a refused flood does not cost one for each request.
package dynamostore
