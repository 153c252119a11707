package lambdahttp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// reportable has the charges that an authorizer only looked at, in the value for the reports of a back end. Each subject and
// each limit is in it once, so that the spellings of a path and the elements of a claim add little.
type reportable struct {
	Subjects []string  `json:"s"`
	Limits   []counted `json:"l"`
}

// counted is a limit with a Count. It has the numbers of the limit, because a caller can have numbers of its own, and the
// function that charges has no rules.
type counted struct {
	Subjects []int            `json:"s"` // indexes of reportable.Subjects
	ID       limiter.ID       `json:"i"`
	Name     string           `json:"n"`
	Rate     algo.Rate        `json:"r"`
	Count    limiter.Counted  `json:"c"`
	Failures limiter.Statuses `json:"f,omitzero"`
	Version  int64            `json:"v,omitzero"`
	Horizon  time.Duration    `json:"h,omitzero"`
	Shadow   bool             `json:"x,omitzero"`
}

func (c *counted) limit() (*limiter.Limit, error) {
	return limiter.NewLimit(limiter.Limit{
		Name: c.Name, ID: c.ID, Rate: c.Rate, Count: limiter.Count{Of: c.Count, Failures: c.Failures}, Version: c.Version, Horizon: c.Horizon,
		Shadow: c.Shadow,
	})
}

func reportableOf(charges []limiter.Charge) (r reportable) {
	subjects, limits := map[limiter.Subject]int{}, map[*limiter.Limit]int{}
	for _, c := range charges {
		s, ok := subjects[c.Subject]
		if !ok {
			s = len(r.Subjects)
			subjects[c.Subject], r.Subjects = s, append(r.Subjects, c.Subject.String())
		}
		i, ok := limits[c.Limit]
		if !ok {
			l := c.Limit
			i = len(r.Limits)
			limits[l], r.Limits = i, append(r.Limits, counted{nil, l.ID, l.Name, l.Rate, l.Count.Of, l.Count.Failures, l.Version, l.Horizon,
				l.Shadow})
		}
		r.Limits[i].Subjects = append(r.Limits[i].Subjects, s)
	}
	return r
}

// charges returns the charges in r, at the cost 0.
func (r *reportable) charges() (charges []limiter.Charge, err error) {
	for i := range r.Limits {
		l, err := r.Limits[i].limit()
		if err != nil {
			return nil, err
		}
		for _, s := range r.Limits[i].Subjects {
			if s < 0 || s >= len(r.Subjects) {
				return nil, fmt.Errorf("got the subject %d of %d", s, len(r.Subjects))
			}
			charges = append(charges, limiter.Charge{Subject: limiter.SubjectOf(r.Subjects[s]), Limit: l})
		}
	}
	return charges, nil
}

// keyTimeout bounds how long an admitted request waits for the key of the MAC.
const keyTimeout = 300 * time.Millisecond

var errNoKeys = errors.New("no keys; set RECORDS_TABLE")

// sealed returns the value with which a back end reports the costs of the charges. Charges for which it has no room are lost.
// It returns "" if the value cannot be made; then nothing is charged, and each charge is lost.
func (e *Environment) sealed(ctx context.Context, now time.Time, charges []limiter.Charge) string {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	text, lost, err := e.seal(ctx, now, charges)
	if err != nil {
		e.Recorder.Settled(telemetry.Settlement{Time: now, Settlement: limiter.Settlement{Lost: lost}})
		e.Logger.LogAttrs(ctx, slog.LevelWarn, "costs of a request cannot be reported", slog.Any("err", err))
	}
	return text
}

func (e *Environment) seal(ctx context.Context, now time.Time, charges []limiter.Charge) (text string, lost int, err error) {
	if e.MACs == nil {
		return "", len(charges), errNoKeys
	}
	charges = slices.Clone(charges)
	slices.SortStableFunc(charges, func(a, b limiter.Charge) int { return chosen(a.Subject) - chosen(b.Subject) })
	encoded := func(n int) string {
		plain, _ := json.Marshal(reportableOf(charges[:n])) // text and numbers
		return base64.RawURLEncoding.EncodeToString(plain)
	}
	room := contract.MaxReport - len(".") - base64.RawURLEncoding.EncodedLen(sha256.Size)
	n := sort.Search(len(charges), func(i int) bool { return len(encoded(i+1)) > room })
	text = encoded(n)
	sum, err := e.MACs.Sign(ctx, now, signed(text))
	if err != nil {
		return "", len(charges), err
	}
	text, lost = text+"."+sum, len(charges)-n
	if n == 0 {
		text = ""
	}
	if lost > 0 {
		err = fmt.Errorf("%d charges of limits with a count need %d bytes in the authorizer's context, want at most %d; %d are lost",
			len(charges), len(encoded(len(charges)))+contract.MaxReport-room, contract.MaxReport, lost)
	}
	return text, lost, err
}

// chosen returns 1 for a subject that can contain a word that a client chooses, and else 0. A long combination is a hash, which
// begins with ~.
func chosen(s limiter.Subject) int {
	text := "|" + s.String()
	if strings.HasPrefix(text, "|~") || strings.Contains(text, "|path:") || strings.Contains(text, "|header:") {
		return 1
	}
	return 0
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
	var list reportable
	plain, err := base64.RawURLEncoding.DecodeString(text)
	err = errors.Join(err, json.Unmarshal(plain, &list))
	charges, invalid := list.charges()
	err = errors.Join(err, invalid)
	if err != nil { // another version of the authorizer made it
		return nil, fmt.Errorf("%w: %w", mac.ErrForged, err)
	}
	return charges, nil
}

// signed returns what the MAC covers. It is no log line, which has a MAC with the same key.
func signed(text string) []byte { return slices.Concat([]byte("report "), []byte(text)) }
