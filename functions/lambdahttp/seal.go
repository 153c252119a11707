package lambdahttp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// counted is a limit with a Count that an authorizer only looked at, in the value for the reports of a back end. It has
// the numbers of the limit, because a caller can have numbers of its own, and the function that charges has no rules.
type counted struct {
	Subject  string           `json:"s"`
	ID       limiter.ID       `json:"i"`
	Name     string           `json:"n"`
	Rate     algo.Rate        `json:"r"`
	Count    limiter.Counted  `json:"c"`
	Failures limiter.Statuses `json:"f,omitzero"`
	Version  int64            `json:"v,omitzero"`
	Horizon  time.Duration    `json:"h,omitzero"`
	Shadow   bool             `json:"x,omitzero"`
}

func (c *counted) charge() (limiter.Charge, error) {
	l, err := limiter.NewLimit(limiter.Limit{
		Name: c.Name, ID: c.ID, Rate: c.Rate, Count: limiter.Count{Of: c.Count, Failures: c.Failures}, Version: c.Version, Horizon: c.Horizon,
		Shadow: c.Shadow,
	})
	return limiter.Charge{Subject: limiter.SubjectOf(c.Subject), Limit: l}, err
}

// keyTimeout bounds how long an admitted request waits for the key of the MAC.
const keyTimeout = 300 * time.Millisecond

var errNoKeys = errors.New("no keys; set RECORDS_TABLE")

// sealed returns the value with which a back end reports the costs of the charges. It returns "" if the value cannot be
// made; then nothing is charged, and each limit counts as lost.
func (e *Environment) sealed(ctx context.Context, now time.Time, charges []limiter.Charge) string {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	text, err := e.seal(ctx, now, charges)
	if err != nil {
		e.Recorder.Settled(telemetry.Settlement{Time: now, Settlement: limiter.Settlement{Lost: len(charges)}})
		e.Logger.LogAttrs(ctx, slog.LevelWarn, "costs of a request cannot be reported", slog.Any("err", err))
	}
	return text
}

func (e *Environment) seal(ctx context.Context, now time.Time, charges []limiter.Charge) (string, error) {
	if e.MACs == nil {
		return "", errNoKeys
	}
	list := make([]counted, len(charges))
	for i, c := range charges {
		l := c.Limit
		list[i] = counted{c.Subject.String(), l.ID, l.Name, l.Rate, l.Count.Of, l.Count.Failures, l.Version, l.Horizon, l.Shadow}
	}
	plain, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(plain)
	sum, err := e.MACs.Sign(ctx, now, signed(text))
	if err != nil {
		return "", err
	}
	text += "." + sum
	if len(text) > contract.MaxReport {
		return "", fmt.Errorf("%d limits with a count need %d bytes in the authorizer's context, want at most %d", len(charges), len(text),
			contract.MaxReport)
	}
	return text, nil
}

// open returns the charges in a value that seal made, at the cost 0. The error wraps mac.ErrForged if no authorizer
// of the deployment made it. Other errors mean that the records table failed.
func (e *Environment) open(ctx context.Context, now time.Time, sealed string) ([]limiter.Charge, error) {
	if e.MACs == nil {
		return nil, errNoKeys
	}
	text, sum, ok := strings.Cut(sealed, ".")
	if !ok || len(sealed) > contract.MaxReport {
		return nil, mac.ErrForged
	}
	if err := e.MACs.Verify(ctx, now, signed(text), sum); err != nil {
		return nil, err
	}
	var list []counted
	plain, err := base64.RawURLEncoding.DecodeString(text)
	err = errors.Join(err, json.Unmarshal(plain, &list))
	if err != nil { // another version of the authorizer made it
		return nil, fmt.Errorf("%w: %w", mac.ErrForged, err)
	}
	charges := make([]limiter.Charge, len(list))
	for i := range list {
		charges[i], err = list[i].charge()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", mac.ErrForged, err)
		}
	}
	return charges, nil
}

// signed returns what the MAC covers. It is no log line, which has a MAC with the same key.
func signed(text string) []byte { return slices.Concat([]byte("report "), []byte(text)) }
