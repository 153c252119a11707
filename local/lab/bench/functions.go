package main

import (
	"context"
	"crypto"
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

	lambdaevents "github.com/aws/aws-lambda-go/events"
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

// These are the names of the rows, in the order of the table.
const (
	jsonRow      = "encoding/json alone"
	anonymousRow = "anonymous"
	apiKeyRow    = "API key"
	es256Row     = "ES256 token, repeated"
	rs256Row     = "RS256 token, repeated"
	newRow       = "ES256 token, new"
	forgedRow    = "ES256 token, forged"
	signatureRow = "ES256 signature alone"
)

var functionColumns = []column{{"ns", 0}, {"of JSON", 2}, {"allocs", 1}, {"bytes", 0}}

// functionCost is what one invocation costs.
type functionCost struct{ ns, allocs, bytes figure }

// functionGroup measures the authorizer from the bytes of an event to the bytes of its policy.
func functionGroup(ctx context.Context, b *bench) (group, error) {
	contenders, err := functionContenders(ctx)
	if err != nil {
		return group{}, err
	}
	var names []string
	for _, c := range contenders {
		names = append(names, c.name)
	}
	duration := 200 * time.Millisecond
	if b.quick {
		duration = 10 * time.Millisecond
	}
	var reference figure // time of jsonRow in the same round
	rows, err := interleave(ctx, b, names, func(i, _ int) ([]figure, error) {
		cost, err := functionCostOf(contenders[i].invoke, duration)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", names[i], err)
		}
		if names[i] == jsonRow {
			reference = cost.ns
		}
		return []figure{cost.ns, cost.ns / reference, cost.allocs, cost.bytes}, nil
	})
	if err != nil {
		return group{}, err
	}
	t := table{
		Title: "Functions: an invocation of the authorizer, from the event's bytes to the policy's", Corner: "caller", Columns: functionColumns, Rows: rows,
		Omitted: []string{"of JSON", "bytes", jsonRow, signatureRow},
		Note: "The functions are warm and use no network. They have a store in memory, the sample's rules with large limits, and metrics. " +
			"A new token is one that the process has not verified before. A forged token has a wrong signature.",
	}
	g := group{Name: "Functions", Tables: []table{t}, Goals: functionGoals(t)}
	start, ok, err := startTable(ctx, b)
	if ok {
		g.Tables = append(g.Tables, start)
		g.Goals = append(g.Goals, startGoals(start)...)
	}
	return g, err
}

// functionGoals come from an earlier measurement. At that time, encoding/json decoded the event, and each
// token cost a signature check. An invocation without a token took 1.28 times as long as encoding/json
// alone. An invocation with a token took 2.4 times as long, without the time of the signature check. The
// goals are half of these two figures. An invocation with a forged token took 1.56 times as long as its
// signature check. The goal for a forged token is the time of the signature check plus half of the
// remaining time.
func functionGoals(t table) (goals []goal) {
	for _, c := range []struct {
		name string
		most float64
	}{{anonymousRow, 0.64}, {apiKeyRow, 0.64}, {es256Row, 1.2}, {rs256Row, 1.2}} {
		goals = append(goals,
			atMost(c.name+", of encoding/json alone", t.value(c.name, "of JSON"), c.most, 2),
			atMost(c.name+", allocations", t.value(c.name, "allocs"), 60, 1))
	}
	signature := t.value(signatureRow, "of JSON")
	return append(goals, atMost(forgedRow+", of its signature", t.value(forgedRow, "of JSON")/signature, 1.28, 2).because(fmt.Sprintf(
		"The check of the signature is 1.00, and no cache can avoid it: each forged token is new. Without a token, an invocation takes %s of a check.", (t.value(anonymousRow, "of JSON")/signature).text(2))))
}

// functionCostOf measures invocations for about the given time.
func functionCostOf(invoke func() error, duration time.Duration) (functionCost, error) {
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
		return functionCost{}, err
	}
	n = max(n, int(float64(n)*float64(duration)/float64(elapsed)))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	elapsed, err = run(n)
	runtime.ReadMemStats(&after)
	each := func(total float64) figure { return figure(total / float64(n)) }
	return functionCost{each(float64(elapsed)), each(float64(after.Mallocs - before.Mallocs)), each(float64(after.TotalAlloc - before.TotalAlloc))}, err
}

// functionContender is a row of the table, with the invocation that the row measures.
type functionContender struct {
	name   string
	invoke func() error
}

func functionContenders(ctx context.Context) ([]functionContender, error) {
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
	anonymous := eventOf("", "")
	sent := []functionContender{{jsonRow, func() error { return encodingJSON(anonymous) }}}
	for _, c := range []struct {
		name  string
		event []byte
	}{
		{anonymousRow, anonymous},
		{apiKeyRow, eventOf("x-api-key", key)},
		{es256Row, eventOf("Authorization", issuer.token(jose.ES256, 0))},
		{rs256Row, eventOf("Authorization", issuer.token(jose.RS256, 0))},
	} {
		sent = append(sent, functionContender{c.name, func() error { return invoke(c.event) }})
	}
	return append(sent, issuer.signatures(invoke)...), nil
}

// signatures returns the rows that verify a signature in each invocation.
func (s *issuer) signatures(invoke func([]byte) error) []functionContender {
	var fresh [][]byte // more tokens than an environment caches
	for i := range 3000 {
		fresh = append(fresh, eventOf("Authorization", s.token(jose.ES256, i+1)))
	}
	at := 0
	token := s.token(jose.ES256, 0)
	forged := eventOf("Authorization", token[:len(token)-8]+"AAAAAAAA")
	digest := make([]byte, crypto.SHA256.Size())
	signature := must(ecdsa.SignASN1(rand.Reader, s.ec, digest))
	return []functionContender{
		{newRow, func() error { at++; return invoke(fresh[at%len(fresh)]) }},
		{forgedRow, func() error {
			if err := invoke(forged); err == nil || err.Error() != "Unauthorized" {
				return fmt.Errorf("forged token: got error %v, want Unauthorized", err) //nolint:errorlint // nil if the token was accepted
			}
			return nil
		}},
		{signatureRow, func() error {
			if !ecdsa.VerifyASN1(&s.ec.PublicKey, digest, signature) {
				return fmt.Errorf("signature: got false, want true")
			}
			return nil
		}},
	}
}

// encodingJSON decodes an event and encodes a policy with encoding/json and the types of aws-lambda-go.
func encodingJSON(event []byte) error {
	var e lambdaevents.APIGatewayCustomAuthorizerRequestTypeRequest
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	_, err := json.Marshal(lambdaevents.APIGatewayCustomAuthorizerResponse{
		PrincipalID: "ip:" + e.RequestContext.Identity.SourceIP,
		PolicyDocument: lambdaevents.APIGatewayCustomAuthorizerPolicy{Version: "2012-10-17", Statement: []lambdaevents.IAMPolicyStatement{
			{Action: []string{"execute-api:Invoke"}, Effect: "Allow", Resource: []string{e.MethodArn}},
		}},
		Context: map[string]any{"weir": "allowed", "rateLimitLimit": "100", "rateLimitRemaining": "99", "rateLimitReset": "1772625600"},
	})
	return err
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
		"free":{"requests":100000000,"window_seconds":60,"algorithm":"token_bucket"},
		"paid":{"requests":100000000,"window_seconds":60,"algorithm":"token_bucket"},
		"enterprise":{"requests":100000000,"window_seconds":60}}},
	{"endpoint":"*","limits":{"global":[
		{"name":"address","requests":100000000,"window_seconds":60,"per":["ip"],"only":"unverified"},
		{"name":"bad-credentials","requests":100000000,"window_seconds":60,"per":["ip"],"only":"bad_credentials"}]}}]}`

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
