package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/dynamostore"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/telemetry"
)

var functionColumns = []column{{"ns", 0}, {"allocs", 1}, {"bytes", 0}}

// functionGroup measures the authorizer from the bytes of an event to the bytes of its policy.
func functionGroup(ctx context.Context, b *bench) (group, error) {
	duration := 200 * time.Millisecond
	if b.quick {
		duration = 10 * time.Millisecond
	}
	contenders, err := functionContenders(ctx, duration)
	if err != nil {
		return group{}, err
	}
	rows, err := b.interleave(ctx, contenders)
	if err != nil {
		return group{}, err
	}
	g := group{Name: "Functions", Tables: []table{{
		Title: "Functions: an invocation of the authorizer, from the event's bytes to the policy's", Corner: "caller", Columns: functionColumns, Rows: rows,
		Omitted: []string{"bytes"},
		Note: "The functions are warm and use no network. They have a store in memory, the sample's rules with large limits, and metrics. " +
			"A new token is one that the process has not verified before.",
	}}}
	start, ok, err := startTable(ctx, b)
	if ok {
		g.Tables = append(g.Tables, start)
	}
	return g, err
}

// invocations measures invocations for about the given time.
func invocations(invoke func() error, duration time.Duration) ([]figure, error) {
	run := func(n int) (time.Duration, error) {
		begun := time.Now()
		for range n {
			if err := invoke(); err != nil {
				return 0, err
			}
		}
		return max(1, time.Since(begun)), nil
	}
	n := 200
	elapsed, err := run(n)
	if err != nil {
		return nil, err
	}
	n = max(n, int(float64(n)*float64(duration)/float64(elapsed)))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	elapsed, err = run(n)
	runtime.ReadMemStats(&after)
	each := func(total float64) figure { return figure(total / float64(n)) }
	return []figure{each(float64(elapsed)), each(float64(after.Mallocs - before.Mallocs)), each(float64(after.TotalAlloc - before.TotalAlloc))}, err
}

func functionContenders(ctx context.Context, duration time.Duration) ([]contender, error) {
	issuer, err := newIssuer()
	if err != nil {
		return nil, err
	}
	key := caller.NewAPIKey()
	e, err := issuer.environment(key)
	if err != nil {
		return nil, err
	}
	authorizer := lambdahttp.NewAuthorizer(e)
	invoke := func(event []byte) error {
		_, err := authorizer.Invoke(ctx, event)
		return err
	}
	var fresh [][]byte // more tokens than an environment caches
	for i := range 3000 {
		fresh = append(fresh, eventOf("Authorization", issuer.token(jose.ES256, i+1)))
	}
	at := 0
	token := issuer.token(jose.ES256, 0)
	forged := eventOf("Authorization", token[:len(token)-8]+"AAAAAAAA")
	repeated := func(field, value string) func() error {
		event := eventOf(field, value)
		return func() error { return invoke(event) }
	}
	var all []contender
	for _, c := range []struct {
		name   string
		invoke func() error
	}{
		{"anonymous", repeated("", "")},
		{"API key", repeated("x-api-key", key)},
		{"ES256 token, repeated", repeated("Authorization", token)},
		{"RS256 token, repeated", repeated("Authorization", issuer.token(jose.RS256, 0))},
		{"ES256 token, new", func() error { at++; return invoke(fresh[at%len(fresh)]) }},
		{"ES256 token, forged", func() error {
			if err := invoke(forged); err == nil || err.Error() != "Unauthorized" {
				return fmt.Errorf("forged token: got error %v, want Unauthorized", err) //nolint:errorlint // nil if the token was accepted
			}
			return nil
		}},
	} {
		all = append(all, contender{c.name, func() ([]figure, error) { return invocations(c.invoke, duration) }})
	}
	return all, nil
}

// eventOf returns the event of an anonymous request with one more header field.
func eventOf(field, value string) []byte {
	var event map[string]any
	if err := json.Unmarshal(must(events.Files.ReadFile("rest-authorizer-anonymous.json")), &event); err != nil {
		panic(err)
	}
	if field != "" {
		event["headers"].(map[string]any)[field] = value
		event["multiValueHeaders"].(map[string]any)[field] = []string{value}
	}
	return must(json.Marshal(event))
}

type issuer struct {
	ec  *ecdsa.PrivateKey
	rsa *rsa.PrivateKey
}

func newIssuer() (*issuer, error) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	rsa, err := rsa.GenerateKey(rand.Reader, 2048)
	return &issuer{ec, rsa}, err
}

// token returns an Authorization header with a token of a user. The token is valid for a day.
func (s *issuer) token(algorithm jose.SignatureAlgorithm, user int) string {
	var key any = s.ec
	if algorithm == jose.RS256 {
		key = s.rsa
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: string(algorithm)}}, nil))
	now := time.Now()
	return "Bearer " + must(jwt.Signed(signer).Claims(map[string]any{
		"iss": events.Issuer, "aud": events.Audience, "sub": fmt.Sprint("user-", user), "tier": "paid", "scope": "search:read search:write",
		"iat": now.Unix(), "exp": now.Add(24 * time.Hour).Unix(), "jti": fmt.Sprintf("%036d", user),
	}).Serialize())
}

// benchRules are the sample's rules with limits that no measurement reaches.
const benchRules = `{"rules":[
	{"endpoint":"/api/v1/search","method":"GET","limits":{
		"free":{"requests":100000000,"window":"1m","algorithm":"token_bucket"},
		"paid":{"requests":100000000,"window":"1m","algorithm":"token_bucket"},
		"enterprise":{"requests":100000000,"window":"1m"}}},
	{"endpoint":"*","limits":{"global":[
		{"name":"address","requests":100000000,"window":"1m","per":["ip"],"only":"unverified"},
		{"name":"bad-credentials","requests":100000000,"window":"1m","per":["ip"],"only":"bad_credentials"}]}}]}`

// environment returns an environment whose only API key is key.
func (s *issuer) environment(key string) (*lambdahttp.Environment, error) {
	set, err := caller.ParseKeySet(must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: s.ec.Public(), KeyID: string(jose.ES256)}, {Key: s.rsa.Public(), KeyID: string(jose.RS256)},
	}})))
	if err != nil {
		return nil, err
	}
	tokens, err := caller.NewVerifier(caller.TokenOptions{
		Keys: set, Issuer: events.Issuer, Audience: events.Audience, Algorithms: []string{string(jose.ES256), string(jose.RS256)},
	})
	if err != nil {
		return nil, err
	}
	parsed, err := rules.Parse([]byte(benchRules), rules.Options{Items: dynamostore.Items{}, Version: 1})
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.DiscardHandler)
	l, err := limiter.New(must(memstore.New(memstore.Options{})), limiter.Options{Logger: logger})
	if err != nil {
		return nil, err
	}
	return &lambdahttp.Environment{
		Limiter: l, Rules: live.Fixed(parsed), Clock: l.Now, Logger: logger,
		Identifier: caller.New(caller.Options{Tokens: tokens, APIKeys: caller.NewRemoteRecords(oneKey(key))}),
		Recorder:   telemetry.New(io.Discard, "bench", telemetry.NewSubjectHash("bench", nil)),
	}, nil
}

// oneKey is a table with the record of one API key.
type oneKey string

var keySecret = []byte("0123456789abcdef")

// Secrets implements caller.KeyTable.
func (oneKey) Secrets(context.Context) ([][]byte, error) { return [][]byte{keySecret}, nil }

// Record implements caller.KeyTable.
func (k oneKey) Record(_ context.Context, hash string) (caller.Record, bool, error) {
	return caller.Record{ID: "bench", Hash: hash, Tier: "enterprise"}, hash == caller.HashAPIKey(keySecret, string(k)), nil
}
