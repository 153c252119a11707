package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Path is the prefix of the paths at which a local gateway answers the questions of [Gateway].
const Path = "/_weir/api/"

// These are the paths of the questions. A question is a POST with a JSON body, so that no URL contains a
// token. The browser sends a preflight before such a request of a web page of another origin.
const (
	pathExplain = Path + "explain"
	pathUsage   = Path + "usage"
	pathReset   = Path + "reset"
)

const (
	maxQuestion = 64 << 10 // bytes
	maxAnswer   = 16 << 20 // bytes; this is enough for a document with the maximum of 1000 rules
	patience    = 10 * time.Second
)

type about struct {
	Subject string `json:"subject"`
}

type failure struct {
	Error string `json:"error"`
}

// Handler answers questions below [Path]. The status is 200 with an answer, 400 for a mistake in the
// question, and 502 if the store failed. The caller must check the Host header and the origin before
// it calls the handler.
func (o *Operator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathExplain, func(w http.ResponseWriter, r *http.Request) { Answer(w, r, o.Explain) })
	mux.HandleFunc("POST "+pathUsage, func(w http.ResponseWriter, r *http.Request) {
		Answer(w, r, func(ctx context.Context, a about) (Usage, error) { return o.Usage(ctx, a.Subject) })
	})
	mux.HandleFunc("POST "+pathReset, func(w http.ResponseWriter, r *http.Request) {
		Answer(w, r, func(ctx context.Context, a about) (Usage, error) { return o.Reset(ctx, a.Subject) })
	})
	return mux
}

// Answer reads a question of r, and writes the answer of the function ask or its error. It is the handler of one path;
// see [Operator.Handler].
func Answer[Q, A any](w http.ResponseWriter, r *http.Request, ask func(context.Context, Q) (A, error)) {
	var question Q
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&question); err != nil {
		write(w, http.StatusBadRequest, failure{"invalid JSON: " + err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	a, err := ask(ctx, question)
	if _, mistaken := errors.AsType[*MistakeError](err); mistaken {
		write(w, http.StatusBadRequest, failure{err.Error()})
	} else if err != nil {
		write(w, http.StatusBadGateway, failure{err.Error()})
	} else {
		write(w, http.StatusOK, a)
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has disconnected
}

// Gateway queries the gateway on this machine. It is safe for concurrent use.
type Gateway struct{ url string }

// NewGateway returns the gateway at a URL such as http://127.0.0.1:8080. The URL must be
// on this machine, because questions can have tokens.
func NewGateway(address string) (*Gateway, error) {
	u, err := url.Parse(address)
	if err == nil && u.Scheme == "http" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" {
		addr, err := netip.ParseAddr(u.Hostname())
		if u.Hostname() == "localhost" || err == nil && addr.IsLoopback() {
			return &Gateway{"http://" + u.Host}, nil
		}
	}
	return nil, Mistake("url: got %q, want the URL of a gateway on this machine, such as http://127.0.0.1:8080", address)
}

// client does not follow redirects, because a question may contain a token.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// Explain is [Operator.Explain].
func (g *Gateway) Explain(ctx context.Context, q Question) (Explanation, error) {
	return Ask[Explanation](ctx, g, pathExplain, q)
}

// Usage is [Operator.Usage].
func (g *Gateway) Usage(ctx context.Context, subject string) (Usage, error) {
	return Ask[Usage](ctx, g, pathUsage, about{subject})
}

// Reset is [Operator.Reset].
func (g *Gateway) Reset(ctx context.Context, subject string) (Usage, error) {
	return Ask[Usage](ctx, g, pathReset, about{subject})
}

// NoGatewayError means that no gateway of Weir answers at a URL.
type NoGatewayError struct{ error }

// Unwrap returns the error of the connection, if there was none.
func (e *NoGatewayError) Unwrap() error { return e.error }

// Ask sends a question to a path of the gateway, and returns the answer.
func Ask[A any](ctx context.Context, g *Gateway, path string, question any) (a A, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return a, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return a, &NoGatewayError{fmt.Errorf("no gateway at %s: %w; start one with make run or weir serve, or set --url or WEIR_URL",
			request.URL.Host, err)}
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return a, err
	}
	if response.StatusCode == http.StatusOK {
		return a, json.Unmarshal(content, &a)
	}
	var failed failure
	if json.Unmarshal(content, &failed) != nil || failed.Error == "" {
		return a, &NoGatewayError{fmt.Errorf("%s answered %s, so this is not a gateway of Weir; start one with make run", request.URL.Host,
			response.Status)}
	}
	if response.StatusCode == http.StatusBadRequest {
		return a, &MistakeError{failed.Error}
	}
	return a, errors.New(failed.Error)
}
