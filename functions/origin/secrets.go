package origin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/records"
)

// Secrets are the valid values of contract.OriginSecretField.
type Secrets struct {
	current, previous string    // previous is "" before the first rotation
	rotated           time.Time // when current replaced previous
}

var encoding = base64.RawURLEncoding

var secretLength = encoding.EncodedLen(records.PairBytes)

// Settling is the time after a rotation in which distributions still send the previous secret. It is much longer than
// functions use secrets without reading them again.
const Settling = 15 * time.Minute

// Deploying is the time in which a deployment reaches every server of a distribution. A rotation is rejected until then.
const Deploying = 2 * time.Hour

// These are the errors of a rotation. Compare with errors.Is.
var (
	// ErrInUse means that a distribution may still send the secret that a rotation would invalidate.
	ErrInUse = errors.New("the rotation would invalidate the secret that distributions may still send")
	// ErrUnsettled means that distributions must not have the new secret yet.
	ErrUnsettled = errors.New("the new secret of the distribution is too young")
	// ErrNoSecrets means that the table has no secrets.
	ErrNoSecrets = errors.New("records table: no secret of the distribution; the deployment of a distribution creates it, or `weir keys origin --create`")
)

func fromPair(p records.Pair) Secrets {
	s := Secrets{current: encoding.EncodeToString(p.Current), rotated: p.Rotated}
	if p.Previous != nil {
		s.previous = encoding.EncodeToString(p.Previous)
	}
	return s
}

// Derive returns the secret that belongs to a key, for processes that share the key but no table.
func Derive(key []byte) Secrets {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("weir origin secret"))
	return fromPair(records.Pair{Current: mac.Sum(nil)})
}

// Read returns the secrets of a namespace. If there are none, the error wraps ErrNoSecrets.
func Read(ctx context.Context, api records.Reader, table, namespace string) (Secrets, error) {
	p, err := records.ReadPair(ctx, api, table, contract.OriginSecretsKey(namespace))
	if errors.Is(err, records.ErrNoPair) {
		return Secrets{}, ErrNoSecrets
	}
	if err != nil {
		return Secrets{}, err
	}
	return fromPair(p), nil
}

// Create creates the secrets of a namespace if there are none.
func Create(ctx context.Context, api records.Writer, table, namespace string) error {
	_, err := records.CreatePair(ctx, api, table, contract.OriginSecretsKey(namespace))
	return err
}

// Take returns the secret that a sender, which is a distribution or a proxy, must have from the time now on, and records
// that the sender took it. If there is none, Take creates it.
func Take(ctx context.Context, api records.Writer, table, namespace string, now time.Time) (secret string, err error) {
	err = records.TakePair(ctx, api, table, contract.OriginSecretsKey(namespace), func(p *records.Pair) error {
		secret = take(p, now)
		return nil
	})
	return secret, err
}

// Deploy is Take for a deployment of a distribution. If the text differs from that of the last successful deployment,
// Deploy returns the new secret. The error wraps ErrUnsettled if distributions must not have this secret yet. The rollback
// then has the old text again, so it succeeds, and the distribution keeps its secret.
func Deploy(ctx context.Context, api records.Writer, table, namespace, text string, now time.Time) (secret string, err error) {
	err = records.TakePair(ctx, api, table, contract.OriginSecretsKey(namespace), func(p *records.Pair) error {
		secret, err = deploy(p, text, now)
		return err
	})
	return secret, err
}

func deploy(p *records.Pair, text string, now time.Time) (string, error) {
	if s := fromPair(*p); text != p.Reason && s.unsettled(now) {
		return "", fmt.Errorf("%w: not every function knows it (want a deployment at %s or later)", ErrUnsettled, s.Settled().UTC().Format(time.RFC3339))
	}
	p.Reason = text
	return take(p, now), nil
}

func take(p *records.Pair, now time.Time) string {
	s := fromPair(*p)
	p.Taken = now
	if s.unsettled(now) {
		p.Taken = time.Time{}
	}
	return s.Sent(now)
}

// Sent returns the secret that a sender must have from the time now on.
func (s Secrets) Sent(now time.Time) string {
	if s.unsettled(now) {
		return s.previous
	}
	return s.current
}

// unsettled reports that senders still need the previous secret at the time now.
func (s Secrets) unsettled(now time.Time) bool { return s.previous != "" && now.Before(s.Settled()) }

// Rotated returns when the current secret replaced the previous one. It is the zero time before the first rotation.
func (s Secrets) Rotated() time.Time { return s.rotated }

// Settled returns when distributions may send the current secret.
func (s Secrets) Settled() time.Time { return s.rotated.Add(Settling) }

// Rotate replaces the current secret at the time now. The previous one becomes invalid. The error wraps ErrInUse if a
// sender may still have it, unless force is true. Of two concurrent rotations, one fails.
func Rotate(ctx context.Context, api records.ReadWriter, table, namespace string, now time.Time, force bool) error {
	err := records.RotatePair(ctx, api, table, contract.OriginSecretsKey(namespace), now, func(p records.Pair) error {
		if force {
			return nil
		}
		return permit(p, now)
	})
	if errors.Is(err, records.ErrNoPair) {
		return ErrNoSecrets
	}
	return err
}

// permit returns an error if a sender may still have the previous secret.
func permit(p records.Pair, now time.Time) error {
	free := p.Taken.Add(Deploying + time.Second) // the item has no fractions of a second
	switch {
	case p.Previous == nil:
		return nil
	case p.Taken.IsZero():
		return fmt.Errorf("last rotation %s: no distribution or proxy took its secret: %w", p.Rotated.UTC().Format(time.RFC3339), ErrInUse)
	case now.Before(free):
		return fmt.Errorf("secret taken %s: %w (want %s or later)", p.Taken.UTC().Format(time.RFC3339), ErrInUse, free.UTC().Format(time.RFC3339))
	}
	return nil
}

// problem returns why the secret field of a header is not valid; "" if it is.
func (s Secrets) problem(h http.Header) string {
	values := h[contract.OriginSecretField]
	switch {
	case len(values) == 0:
		return "missing"
	case len(values) > 1:
		return "repeated"
	case len(values[0]) != secretLength:
		return "wrong"
	}
	sent := []byte(values[0])
	valid := subtle.ConstantTimeCompare(sent, []byte(s.current)) // ConstantTimeCompare returns 0 for "", which has another length
	valid |= subtle.ConstantTimeCompare(sent, []byte(s.previous))
	if valid != 1 {
		return "wrong"
	}
	return ""
}
