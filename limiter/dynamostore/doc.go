// Package dynamostore keeps limits in a DynamoDB table. [New] returns a store with a circuit breaker and a deadline
// of 100 ms (package resilient), [NewBare] one without.
//
// A decision is one conditional UpdateItem for any number of limits on the subject. It needs one round
// trip, no read, and one write unit if the item has at most 1 KB. Package rules bounds the items of a
// document to one write unit, or to eight units if they hold logs (see RULES.md, "Items"). An application
// that creates limits without package rules must keep its items small.
//
// For each limit, the item holds the state, the parameters under which the state was written (a readable
// fingerprint), and the version of the rules that set these parameters:
//
//	pk             S  namespace/format/subject
//	ttl            N  seconds; every write sets it, and it only frees space
//	f<id> v<id>    S N  fingerprint, rules version; written at the first write or a conversion
//	t<id> g<id>    N N  bucket: TAT in ns; number of refunds
//	x<id>          N    window: newest index charged
//	c<id><index>   N    window: count of one index, which is in base 36
//	d<id><index>   N    window that regions share: debits minus credits of one index (algo.Shared)
//	d              N    1 if share has moved in this item
//	l<id>          L    log: instants of the last requests, in the order of the appends
//	n<id>          L    log: stamp of the list since its last rewrite, three numbers
//	x<id>          N    log: interval of 2.5 s in which the newest entry is
//	m<id>          NS   entries of the slots of a concurrent limit (algo.Slots); x<id> as for a log
//	a<id>          L    skew of a state too far ahead of a clock (algo.Clamp): two numbers
//
// # How one write can be exact
//
// An environment is one process with a denial cache, which remembers states of recent answers.
//
// A bucket is busy if its TAT is ahead of now, and otherwise idle. The update of a busy bucket is "add the
// increment if TAT is at most the latest TAT that allows it". Additions can happen in any order, so
// concurrent callers do not collide. The update of an idle bucket is "set TAT to now plus the increment if
// TAT is not ahead of now". An environment that made the bucket busy knows which update applies. Any other
// environment guesses: it sends the update that was recently correct for other buckets of the limit.
//
// Update expressions have no maximum function, so one expression cannot serve both busy and idle
// buckets. With Poisson arrivals at half of the limit, a bucket is busy half of the time. Half of the
// guesses are then wrong, and a decision needs 1.5 requests on average. A list of pending instants, which
// a later write would add up, would need no guess. But such a list takes about 60 bytes for each limit, so
// ten buckets would not fit one write unit.
//
// A window keeps one count per index, so no count is ever reset. If the previous count is known, the
// condition is "count <= room". An environment without a state of the caller sends a ladder instead:
// (previous <= N/8 and count <= m1) or (previous <= 2N/8 and count <= m2) and so on. The rounding of
// each rung never admits a request above the limit. The condition also contains the exact test for an
// index without a count. So this environment also needs one call, unless the caller is near its
// limit.
//
// A region that shares a window with others charges it like a window of its base share, on the condition that no share has
// moved. If some has, the condition names what has moved, so an environment without a state of the caller needs a second
// call then. A debit bounds the count as a charge does, and adds to the moved share instead of the count. It names what had
// moved before, so a second copy of it has no effect. A credit is sent once. A reset of an item in which share has moved
// keeps that share, and therefore is an update.
//
// A charge on a log appends its instants if the list has room for them. There is room in two cases: the
// whole list is short enough, or the list without the expired entries at its head is short enough. An environment
// without a state of the caller tests some entries of a short list, so it usually needs one call too. The
// condition does not name the newest entry, so concurrent appends do not collide. A process whose clock
// is behind appends an older instant. This entry counts as if it had the newest instant before it in the
// list. The stamp has a random generation, which every write except an append replaces. While the
// generation is the same, each entry is still at its position. The interval proves that no entry is too
// far ahead of the clock (algo.Clamp).
//
// If a log has up to algo.MaxExact requests, its list holds at most that many entries, unless it has a debt. A charge that
// finds it full replaces it by a list without expired entries, in the same update. So three such logs take one write unit.
// A longer list never holds more than twice what the limit allows. About one request in 40 removes the
// expired entries in a separate update, which keeps entries that other requests append at the same time.
// An entry takes 12 bytes, so a write costs one unit for each 85 entries in the list. A write of a log
// of 100 requests costs 1 to 3 units. A write of the largest log, of 327 requests, costs up to 8 units.
//
// The slots of a concurrent limit are a set of their entries. A charge adds an entry if the size of the set is below the
// limit, and the set does not have the entry. A release deletes the entry if the set has it. Neither condition names
// another slot, so charges and releases never collide. Expired slots count until a charge finds the set full. Its next
// attempt replaces the set by one without them. If other corrections of a settlement lose every race, its
// slots are released in a last update. An entry takes 11 bytes, so a write costs one unit for each 93
// slots in the set.
//
// A request after a pause adds a count and removes the two counts whose names it knows. A second update
// removes other dead counts. This update runs at once if the item has more than 512 bytes and one of its
// limits has three counts. For any other item, it runs when there are more than eight dead counts.
//
// When the condition fails, DynamoDB returns the item. If the item refuses, the answer is a refusal with
// the exact wait. If the item leaves nothing to charge, because forced charges meet the max debt, the
// request is allowed without a write. Otherwise, the guess was wrong, and the next attempt is built from
// the item. With k limits on the subject there are at most k+1 attempts if the denial cache has their
// states, and k+2 attempts if it does not. Each of the following events between two attempts can add one
// attempt: a window or the interval of a log ends, a log is trimmed or replaced, a refund arrives, a limit is
// converted, or an idle bucket becomes busy after a wrong guess. All attempts of a decision use the same
// instant as "now".
//
// # What it needs
//
// Decisions need [Actions] on the table. Inspect and Reset need [AdministrationActions], and Reset also [Actions] for limits
// that regions share. The key of
// the table is [KeyAttribute], and its TTL attribute is [TTLAttribute]. A failed condition costs a
// write unit. The denial cache ([limiter.Options].CacheTTL) prevents a flood of refused requests from
// costing a write unit each.
package dynamostore
