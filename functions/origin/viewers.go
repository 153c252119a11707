package origin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/cache"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// policy reads the secrets again once a minute. While the table fails, they are used for an hour.
var policy = cache.Policy{Fresh: time.Minute, Absent: 10 * time.Second, Stale: time.Hour, Cooldown: 10 * time.Second, Retry: time.Second, Timeout: 600 * time.Millisecond}

// Viewers finds the addresses of clients. Create it with New. It is safe for concurrent use.
type Viewers struct {
	believed Believed
	refuse   bool
	load     cache.Load[Secrets]
	secrets  *cache.Value[Secrets]
	logger   *slog.Logger
}

// Options are the options of Viewers. Load and Logger are required.
type Options struct {
	Believed Believed
	// Refuse refuses direct requests.
	Refuse bool
	// Load returns the secrets, for example with [Read].
	Load   func(context.Context) (Secrets, error)
	Logger *slog.Logger
}

// New returns Viewers.
func New(o Options) *Viewers {
	var known atomic.Bool
	return &Viewers{
		believed: o.Believed, refuse: o.Refuse, secrets: cache.New[Secrets](&policy),
		logger: slog.New(telemetry.NewRateLimitedHandler(o.Logger.Handler())), // any client can send a direct request
		load: func(ctx context.Context) (Secrets, time.Time, error) {
			s, err := o.Load(ctx)
			if errors.Is(err, ErrNoSecrets) && !known.Load() { // afterwards, somebody deleted the item: the known secrets count
				err = errors.Join(err, cache.ErrAbsent)
			}
			if err == nil {
				known.Store(true)
			}
			return s, time.Time{}, err
		},
	}
}

// Warm reads the secrets, so that no request waits for them. v can be nil.
func (v *Viewers) Warm(ctx context.Context, now time.Time) error {
	if v == nil {
		return nil
	}
	if _, err := v.secrets.Get(ctx, now, v.load); !errors.Is(err, cache.ErrAbsent) {
		return err
	}
	return nil
}

// Fields returns the header fields that Find reads, in canonical form and sorted.
func (v *Viewers) Fields() []string { return v.believed.Fields() }

// Address is the address of a client.
type Address struct {
	netip.Addr
	// From is the source of the address: a value of contract.VariableViewerAddress. Problem is the reason why the host is
	// the source although the variable has another value.
	From, Problem string
	// Direct reports that the request has no valid secret, and Refused that it is refused for this reason.
	Direct, Refused bool
}

// Find returns the address of the client whose request, with the header h, arrived at the time now from the address peer.
// appended reports that the host has appended peer to X-Forwarded-For.
//
// If the secrets cannot be read, no field counts, but the request is not direct.
func (v *Viewers) Find(ctx context.Context, now time.Time, h http.Header, peer netip.Addr, appended bool) Address {
	a := Address{Addr: peer, From: contract.ViewerSource}
	secrets, err := v.secrets.Get(ctx, now, v.load)
	if err != nil && !errors.Is(err, cache.ErrAbsent) {
		a.Problem = contract.OriginSecretField + ": not verified"
		v.logger.LogAttrs(ctx, slog.LevelError, "secrets of the distribution not read; the source address counts", slog.Any("err", err))
		return a
	}
	if problem := secrets.problem(h); problem != "" {
		a.Problem, a.Direct, a.Refused = contract.OriginSecretField+": "+problem, true, v.refuse
		v.logger.LogAttrs(ctx, slog.LevelInfo, "direct request", slog.String("problem", a.Problem), slog.String("address", a.From), slog.Bool("refused", a.Refused))
		return a
	}
	addr, problem := v.believed.address(h, peer, appended)
	if problem != "" {
		a.Problem = problem
		v.logger.LogAttrs(ctx, slog.LevelWarn, "address of the client not found; the source address counts", slog.String("problem", problem))
		return a
	}
	a.Addr, a.From = addr, v.believed.String()
	return a
}

// String returns From, and the Problem if there is one.
func (a Address) String() string {
	if a.Problem == "" {
		return a.From
	}
	return a.From + " (" + a.Problem + ")"
}
