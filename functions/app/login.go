package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/algo"
	"github.com/weir-limits/weir/limiter/httplimit"
)

// attempts is how often a user's password may be tried: whoever knows it gets the attempt
// back, so that only failures count. It is a limit that no rule can express, because it
// counts by what the body says. The name is not verified, so the limit of the address
// that rules put before it bounds how many names one caller can try. While the store fails
// nobody logs in: whoever can wait for that would otherwise guess without a limit.
var attempts = func() *limiter.Limit {
	l, err := limiter.NewLimit(limiter.Limit{Name: "login", Version: 1, OnError: limiter.OnErrorDeny, Rate: algo.Rate{Algorithm: algo.SlidingLog, Requests: 5, Window: time.Hour}})
	if err != nil {
		panic(err)
	}
	return l
}()

// maxCredentials is the longest body of a login.
const maxCredentials = 4 << 10

// login answers POST /api/v1/login of the sample API.
func (e *Environment) login(w http.ResponseWriter, r *http.Request) {
	var given struct{ User, Password string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCredentials)).Decode(&given); err != nil || given.User == "" {
		reply(w, http.StatusBadRequest, map[string]any{"error": "want a JSON object with user and password"})
		return
	}
	charges := []limiter.Charge{{Subject: limiter.Custom("login", strings.ToLower(given.User)), Limit: attempts, Cost: 1}}
	now := e.Clock()
	decision, receipt, err := e.Limiter.TakeRefundable(r.Context(), now, charges)
	if err != nil {
		e.Logger.LogAttrs(r.Context(), slog.LevelError, "login limit cannot be applied", slog.Any("err", err))
		reply(w, http.StatusInternalServerError, map[string]any{"error": "internal_error"})
		return
	}
	switch answer := httplimit.NewAnswer(decision); {
	case !decision.Allowed:
		answer.Refuse(w)
	case !e.knows(given.User, given.Password):
		answer.SetHeader(w.Header())
		reply(w, http.StatusUnauthorized, map[string]any{"error": "wrong_user_or_password"})
	default:
		now := e.Clock()
		e.Recorder.Refunds(now, receipt.Refund(r.Context(), now))
		reply(w, http.StatusOK, map[string]any{"user": given.User})
	}
}

// knows reports whether the sample API's login has the user and the password.
func (e *Environment) knows(user, password string) bool {
	wantUser, wantPassword, ok := strings.Cut(e.SampleLogin, ":")
	return ok && equal(wantUser, user) && equal(wantPassword, password)
}

// equal compares in a time that does not depend on where they differ.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
