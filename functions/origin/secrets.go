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

// encoding is the encoding of a secret in the field.
var encoding = base64.RawURLEncoding

// secretLength is the length of an encoded secret.
var secretLength = encoding.EncodedLen(records.PairBytes)

// Settling is the time after a rotation in which distributions still send the previous secret. It is much longer than
// functions use secrets without reading them again.
const Settling = 15 * time.Minute

// Deploying is the time after a rotation in which another one is rejected: distributions need the new secret first.
const Deploying = 2 * time.Hour

// These are the errors of a rotation. Compare with errors.Is.
var (
	// ErrInUse means that a distribution may still send the secret that a rotation would invalidate.
	ErrInUse = errors.New("the rotation would invalidate the secret that distributions may still send")
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

// Read returns the secrets in a records table. If there are none, the error wraps ErrNoSecrets.
func Read(ctx context.Context, api records.Reader, table string) (Secrets, error) {
	return found(records.ReadPair(ctx, api, table, contract.OriginSecretsKey))
}

func found(p records.Pair, err error) (Secrets, error) {
	if errors.Is(err, records.ErrNoPair) {
		return Secrets{}, ErrNoSecrets
	}
	if err != nil {
		return Secrets{}, err
	}
	return fromPair(p), nil
}

// Ensure returns the secret that a distribution sends at the time now. If the table has none, Ensure creates it.
func Ensure(ctx context.Context, api records.Writer, table string, now time.Time) (string, error) {
	s, err := found(records.CreatePair(ctx, api, table, contract.OriginSecretsKey))
	return s.Sent(now), err
}

// Sent returns the secret that a distribution sends at the time now, from its next deployment on.
func (s Secrets) Sent(now time.Time) string {
	if s.previous != "" && now.Before(s.Settled()) {
		return s.previous
	}
	return s.current
}

// Rotated returns when the current secret replaced the previous one. It is the zero time before the first rotation.
func (s Secrets) Rotated() time.Time { return s.rotated }

// Settled returns when distributions may send the current secret.
func (s Secrets) Settled() time.Time { return s.rotated.Add(Settling) }

// Rotate replaces the current secret at the time now. The previous one becomes invalid. The error wraps ErrInUse if a
// distribution may still send it, unless force is true. Of two concurrent rotations, one fails.
func Rotate(ctx context.Context, api records.ReadWriter, table string, now time.Time, force bool) error {
	err := records.RotatePair(ctx, api, table, contract.OriginSecretsKey, now, func(p records.Pair) error {
		if free := p.Rotated.Add(Deploying + time.Second); p.Previous != nil && now.Before(free) && !force { // the time of the rotation has no fraction
			return fmt.Errorf("last rotation %s: %w (want %s or later)", p.Rotated.Format(time.RFC3339), ErrInUse, free.Format(time.RFC3339))
		}
		return nil
	})
	if errors.Is(err, records.ErrNoPair) {
		return ErrNoSecrets
	}
	return err
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
