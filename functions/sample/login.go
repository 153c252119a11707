package sample

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// attempts limits the login attempts for a user. A correct password refunds its attempt, so only
// failures count. A rule cannot express this limit, because its subject is in the body. The name is
// not verified. The limit by address in rules.json bounds the number of names that one caller can
// try. While the store fails, every login fails, because an attacker could otherwise guess passwords
// without a limit.
var attempts = func() *limiter.Limit {
	l, err := limiter.NewLimit(limiter.Limit{Name: "login", Version: 1, OnError: limiter.OnErrorDeny,
		Rate: algo.Rate{Algorithm: algo.SlidingLog, Requests: 5, Window: time.Hour}})
	if err != nil {
		panic(err)
	}
	return l
}()

// maxCredentials is the size, in bytes, of the largest body of a login.
const maxCredentials = 4 << 10

// login handles POST /api/v1/login.
type login struct {
	*lambdahttp.Environment
	valid string // user:password
}

// ServeHTTP implements http.Handler.
func (l login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var given struct{ User, Password string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCredentials)).Decode(&given); err != nil || given.User == "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "want a JSON object with user and password"})
		return
	}
	charges := []limiter.Charge{{Subject: limiter.Custom("login", strings.ToLower(given.User)), Limit: attempts, Cost: 1}}
	decision, receipt, err := l.Limiter.TakeRefundable(r.Context(), l.Clock(), charges)
	if err != nil {
		l.Logger.LogAttrs(r.Context(), slog.LevelError, "login limit not applied", slog.Any("err", err))
		reply(w, http.StatusInternalServerError, map[string]any{"error": "internal_error"})
		return
	}
	switch answer := httplimit.NewAnswer(decision); {
	case !decision.Allowed:
		answer.Refuse(w)
	case !l.matches(given.User, given.Password):
		answer.SetHeader(w.Header())
		reply(w, http.StatusUnauthorized, map[string]any{"error": "wrong_user_or_password"})
	default:
		now := l.Clock()
		l.Recorder.Refunds(now, receipt.Refund(r.Context(), now))
		reply(w, http.StatusOK, map[string]any{"user": given.User})
	}
}

func (l login) matches(user, password string) bool {
	wantUser, wantPassword, ok := strings.Cut(l.valid, ":")
	return ok && equal(wantUser, user) && equal(wantPassword, password)
}

// equal compares two strings in a time that does not depend on the position of the first difference.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
