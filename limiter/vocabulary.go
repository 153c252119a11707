package limiter

import (
	"context"
	"net/netip"

	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/internal/domain"
)

// The words of the package. Package internal/domain defines them, with their fields and methods, because the layers of a
// Limiter use them too.
type (
	// Subject is the caller or thing that is counted: "user:42", "ip:2001:db8:1::/64", "global".
	Subject = domain.Subject
	// Limit admits at most Rate.Requests per Rate.Window or period.
	Limit = domain.Limit
	// ID identifies a limit inside its subject.
	ID = domain.ID
	// Spread reduces the calls on the one item or key that counts a busy limit.
	Spread = domain.Spread
	// Count is what a limit counts.
	Count = domain.Count
	// Counted is a kind of Count.
	Counted = domain.Counted
	// Statuses is a set of HTTP statuses, 100 to 599.
	Statuses = domain.Statuses
	// Percentages are percentages of a limit's capacity, in ascending order.
	Percentages = domain.Percentages
	// Charge is a cost on one limit of a subject.
	Charge = domain.Charge
	// Store keeps the state of limits.
	Store = domain.Store
	// Settled is the result of Store.Settle.
	Settled = domain.Settled
	// Entry is a limit that a store holds of a subject.
	Entry = domain.Entry
	// Local is implemented by stores whose state is in this process.
	Local = domain.Local
	// Shares is implemented by stores that hold limits that regions share (algo.Shared).
	Shares = domain.Shares
	// Remote is implemented by stores outside this process, such as those of package resilient.
	Remote = domain.Remote
	// Held is the state of one limit of a subject in a store.
	Held = domain.Held
	// Refunds counts refunds.
	Refunds = domain.Refunds
	// Transfer counts what the transfers of share for one request did.
	Transfer = domain.Transfer
	// OnError decides a request in an outage, when the store of one of its limits fails.
	OnError = domain.OnError
	// Reason is why a decision was made without the answer of every store.
	Reason = domain.Reason
	// Clock times the pauses between calls for a throttled item.
	Clock = domain.Clock
	// ConcurrentClock is implemented by a Clock that runs the concurrent calls of a request itself.
	ConcurrentClock = domain.ConcurrentClock
)

// MaxSubject is the length of the longest Subject in bytes, including the parts that shadow limits and shards add.
const MaxSubject = domain.MaxSubject

// StateFormat is the version of the state in stores, and a part of its keys.
const StateFormat = domain.StateFormat

// MinWindow is the shortest window of a limit.
const MinWindow = domain.MinWindow

// MaxVersion is the highest Limit.Version that stores can hold.
const MaxVersion = domain.MaxVersion

// MaxCharges is the largest number of limits that one request may charge on one subject.
const MaxCharges = domain.MaxCharges

// Bounds of a Spread.
const (
	MaxShards = domain.MaxShards
	MinSync   = domain.MinSync
	MaxSync   = domain.MaxSync
)

// TransferTimeout bounds the time that a decision waits for share of other regions. DebitTimeout is the part of it that the
// other regions have for their answers.
const (
	TransferTimeout = domain.TransferTimeout
	DebitTimeout    = domain.DebitTimeout
)

// DefaultSync is the Sync of large limits of all callers on DynamoDB.
const DefaultSync = domain.DefaultSync

// These are the kinds of counts.
const (
	CountRequests   = domain.CountRequests
	CountCost       = domain.CountCost
	CountFailures   = domain.CountFailures
	CountBytes      = domain.CountBytes
	CountConcurrent = domain.CountConcurrent
)

// CostField is the response field in which an API reports its cost.
const CostField = domain.CostField

// MaxPercentages is the largest number of percentages in Limit.Notify, and MaxPercent the largest of them.
const (
	MaxPercentages = domain.MaxPercentages
	MaxPercent     = domain.MaxPercent
)

// MinNotifyWindow is the shortest window of a limit with Notify.
const MinNotifyWindow = domain.MinNotifyWindow

// The values of OnError, from the most lenient to the strictest.
const (
	OnErrorAllow = domain.OnErrorAllow
	OnErrorLocal = domain.OnErrorLocal
	OnErrorDeny  = domain.OnErrorDeny
)

// The reasons.
const (
	ReasonNone        = domain.ReasonNone
	ReasonUnavailable = domain.ReasonUnavailable
	ReasonTimeout     = domain.ReasonTimeout
	ReasonBreaker     = domain.ReasonBreaker
	ReasonThrottled   = domain.ReasonThrottled
	ReasonBusy        = domain.ReasonBusy
	ReasonFull        = domain.ReasonFull
	ReasonOutage      = domain.ReasonOutage
)

// MaxLocalProcesses is the largest Limit.LocalProcesses.
const MaxLocalProcesses = domain.MaxLocalProcesses

// Errors of a Store or a Limiter; compare with errors.Is.
var (
	// ErrInvalidCharge means a mistake of the calling code: a negative cost, a Limit that does not come from
	// NewLimit, one limit of a subject charged twice, or more than MaxCharges on one subject.
	ErrInvalidCharge = domain.ErrInvalidCharge
	// ErrUnavailable means that the store failed or did not answer.
	ErrUnavailable = domain.ErrUnavailable
	// ErrBreakerOpen means that no call was made, because the store failed shortly before.
	ErrBreakerOpen = domain.ErrBreakerOpen
	// ErrNotSent means that no message was sent, because no connection was open in time.
	ErrNotSent = domain.ErrNotSent
	// ErrThrottled means that the store throttles the whole table or account.
	ErrThrottled = domain.ErrThrottled
	// ErrItemThrottled means that the store throttles the item of one subject.
	ErrItemThrottled = domain.ErrItemThrottled
	// ErrRejected means that the store works but rejects one subject, for example because its item has grown too
	// large.
	ErrRejected = domain.ErrRejected
	// ErrContended means that other requests changed the item before each attempt of a charge, until no attempts or
	// no time were left.
	ErrContended = domain.ErrContended
	// ErrFull means that the store has no room for another subject; a Redis server that is out of memory has none for any.
	ErrFull = domain.ErrFull
	// ErrFormat means that this version of the code cannot read the stored state.
	ErrFormat = domain.ErrFormat
)

// SubjectOf returns the subject whose String is text.
func SubjectOf(text string) Subject { return domain.SubjectOf(text) }

// User returns the subject of a user, by the user ID of a verified token.
func User(id string) Subject { return domain.User(id) }

// APIKey returns the subject of an API key, by the ID of its record.
func APIKey(id string) Subject { return domain.APIKey(id) }

// IP returns the subject of a client's address: a single IPv4 address or an IPv6 network.
func IP(prefix netip.Prefix) Subject { return domain.IP(prefix) }

// Claim returns the subject of a claim's value in a verified token, for example of an organisation.
func Claim(name, value string) Subject { return domain.Claim(name, value) }

// PathParameter returns the subject of a parameter's value in the path of a request.
func PathParameter(name, value string) Subject { return domain.PathParameter(name, value) }

// Method returns the subject of a request's method.
func Method(method string) Subject { return domain.Method(method) }

// Header returns the subject of a header field's value.
func Header(name, value string) Subject { return domain.Header(name, value) }

// Endpoint returns the subject of all callers of an endpoint together.
func Endpoint(method, pattern string) Subject { return domain.Endpoint(method, pattern) }

// Global returns the subject of all requests together.
func Global() Subject { return domain.Global() }

// Custom returns a subject that the application defines, for example the user name of a login.
func Custom(kind, value string) Subject { return domain.Custom(kind, value) }

// IsName reports whether s can be the name of a limit.
func IsName(s string) bool { return domain.IsName(s) }

// NewLimit validates l and returns it with its defaults.
func NewLimit(l Limit) (*Limit, error) { return domain.NewLimit(l) }

// NewID returns the hash of parts.
func NewID(parts ...string) ID { return domain.NewID(parts...) }

// ParseID parses an id that String formatted.
func ParseID(s string) (ID, error) { return domain.ParseID(s) }

// TakeAll makes all charges on results, the states of their limits, or none.
func TakeAll(now algo.Instant, charges []Charge, results []algo.Result) bool {
	return domain.TakeAll(now, charges, results)
}

// StoreAs returns the first store that implements T: s itself, or a store that it wraps. A store that wraps another one has
// a method Unwrap. ok is false if none of them implements T.
func StoreAs[T any](s Store) (found T, ok bool) {
	found, ok = s.(T)
	if w, wraps := s.(interface{ Unwrap() Store }); !ok && wraps {
		return StoreAs[T](w.Unwrap())
	}
	return found, ok
}

// SharesOf returns s as Shares, if s can move share.
func SharesOf(s Store) (shares Shares, ok bool) { return domain.SharesOf(s) }

// MayBeStale reports whether a Store may use a state that is some milliseconds old.
func MayBeStale(ctx context.Context) bool { return domain.MayBeStale(ctx) }

// Answered reports whether a Store call that returned err shows that the store works.
func Answered(err error) bool { return domain.Answered(err) }

// TimedOut reports whether err means that a call had no answer in time.
func TimedOut(err error) bool { return domain.TimedOut(err) }
