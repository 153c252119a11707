// Package viewer runs the viewer function of a distribution (package edge) on a model of CloudFront Functions, runtime
// cloudfront-js-2.0. The model has the modules that CloudFront documents, as far as the function uses them.
package viewer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dop251/goja"

	"github.com/weir-limits/weir/functions/edge"
)

// Store is the KeyValueStore of a function. Get returns an error if there is no such key.
type Store interface {
	Get(key string) (string, error)
}

// Function is a viewer function. It is safe for concurrent use.
type Function struct {
	store Store // nil if none is associated

	mu     sync.Mutex
	engine *goja.Runtime
	run    goja.Callable
	now    time.Time
	steps  int
}

// Request is the part of a request that a viewer function gets.
type Request struct {
	IP      string
	Method  string
	URI     string
	Headers map[string][]string // names in lower case
}

// Answer is a response of a viewer function.
type Answer struct {
	Status  int
	Headers map[string]string
	Body    string
}

var imports = regexp.MustCompile(`(?m)^import (\w+) from '(\w+)';$`)

// blocks and expressions match the beginning of each block, and of each function that is an expression, so that a run can
// count them.
var (
	blocks      = regexp.MustCompile(`(?m)(\)|else|try|=>) \{$`)
	expressions = regexp.MustCompile(`(=>) ([^{])`)
)

// Steps returns the number of blocks and functions that the last run entered.
func (f *Function) Steps() int { return f.steps }

// New returns the viewer function of package edge with a store. A nil store means that none is associated.
func New(store Store) (*Function, error) {
	source := edge.Viewer()
	f := &Function{store: store, engine: goja.New()}
	modules := map[string]any{"cloudfront": map[string]any{"kvs": f.kvs}, "crypto": map[string]any{"createHmac": f.createHMAC}}
	for _, match := range imports.FindAllStringSubmatch(source, -1) {
		if modules[match[2]] == nil {
			return nil, fmt.Errorf("viewer function: import %s: the runtime has no such module", match[2])
		}
		if err := f.engine.Set(match[1], modules[match[2]]); err != nil {
			return nil, err
		}
	}
	f.engine.SetTimeSource(func() time.Time { return f.now })
	if err := f.engine.Set("step", func() { f.steps++ }); err != nil {
		return nil, err
	}
	counted := blocks.ReplaceAllString(imports.ReplaceAllString(source, ""), "${0}step();")
	counted = expressions.ReplaceAllString(counted, "$1 step() || $2")
	if _, err := f.engine.RunString(counted); err != nil {
		return nil, fmt.Errorf("viewer function: %w", err)
	}
	var ok bool
	if f.run, ok = goja.AssertFunction(f.engine.Get("handler")); !ok {
		return nil, errors.New("viewer function: no function handler")
	}
	return f, nil
}

// Handle runs the function for a request at the time now. It returns the answer, or nil if the request passes; headers
// are those of the request that passes.
func (f *Function) Handle(now time.Time, r Request) (answer *Answer, headers map[string][]string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.steps = now, 0
	fields := map[string]any{}
	for name, values := range r.Headers {
		fields[name] = field(values)
	}
	result, err := f.run(goja.Undefined(), f.engine.ToValue(map[string]any{
		"version": "1.0", "viewer": map[string]any{"ip": r.IP},
		"request": map[string]any{"method": r.Method, "uri": r.URI, "querystring": map[string]any{}, "headers": fields, "cookies": map[string]any{}},
	}))
	if err != nil {
		return nil, nil, fmt.Errorf("viewer function: %w", err)
	}
	promise, ok := result.Export().(*goja.Promise)
	if !ok || promise.State() != goja.PromiseStateFulfilled {
		return nil, nil, errors.New("viewer function: no fulfilled promise")
	}
	var out struct {
		StatusCode int `json:"statusCode"`
		Headers    map[string]struct {
			Value      string `json:"value"`
			MultiValue []struct {
				Value string `json:"value"`
			} `json:"multiValue"`
		} `json:"headers"`
		Body struct {
			Data string `json:"data"`
		} `json:"body"`
	}
	f.engine.SetFieldNameMapper(goja.TagFieldNameMapper("json", true))
	if err := f.engine.ExportTo(promise.Result(), &out); err != nil {
		return nil, nil, fmt.Errorf("viewer function: result: %w", err)
	}
	if out.StatusCode != 0 {
		answer = &Answer{out.StatusCode, map[string]string{}, out.Body.Data}
		for name, v := range out.Headers {
			answer.Headers[name] = v.Value
		}
		return answer, nil, nil
	}
	headers = map[string][]string{}
	for name, v := range out.Headers {
		if len(v.MultiValue) == 0 {
			headers[name] = []string{v.Value}
		}
		for _, each := range v.MultiValue {
			headers[name] = append(headers[name], each.Value)
		}
	}
	return nil, headers, nil
}

// field returns a header field in the form of an event. A repeated field has all values in multiValue.
func field(values []string) map[string]any {
	all := map[string]any{"value": values[len(values)-1]}
	if len(values) > 1 {
		var multi []any
		for _, value := range values {
			multi = append(multi, map[string]any{"value": value})
		}
		all["multiValue"] = multi
	}
	return all
}

func (f *Function) kvs(goja.FunctionCall) goja.Value {
	if f.store == nil {
		panic(f.engine.NewGoError(errors.New("no KeyValueStore is associated")))
	}
	return f.engine.ToValue(map[string]any{"get": func(key string) *goja.Promise {
		promise, resolve, reject := f.engine.NewPromise()
		if value, err := f.store.Get(key); err != nil {
			_ = reject(f.engine.NewGoError(err))
		} else {
			_ = resolve(value)
		}
		return promise
	}})
}

func (f *Function) createHMAC(hash, key string) map[string]any {
	if hash != "sha256" {
		panic(f.engine.NewGoError(fmt.Errorf("crypto: no hash %s", hash)))
	}
	mac := hmac.New(sha256.New, []byte(key))
	this := map[string]any{}
	this["update"] = func(text string) map[string]any { mac.Write([]byte(text)); return this }
	this["digest"] = func(encoding string) string {
		if !strings.EqualFold(encoding, "base64url") {
			panic(f.engine.NewGoError(fmt.Errorf("crypto: no encoding %s", encoding)))
		}
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	return this
}
