package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/algo"
)

// Stack is a deployed stack: two APIs with the same routes, the functions that they invoke, and the answers that the REST
// API creates without a function.
type Stack struct {
	REST, HTTP          Stage
	Authorizer, Handler Function
	Responses           map[string]Response // key: type, such as ACCESS_DENIED
}

// Stage is the stage of an API.
type Stage struct {
	Name     string        // DefaultStage for none; URLs contain no stage
	Throttle algo.Machine  // each route has its own bucket of this size and rate; nil if unlimited
	Wait     time.Duration // the longest time for which the API waits for the handler
}

// DefaultStage is the name of the default stage of an HTTP API.
const DefaultStage = "$default"

// Function is a Lambda function.
type Function struct {
	Environment map[string]string
	Timeout     time.Duration // of one invocation
}

// Response customizes one type of answer that a REST API creates without a function, such as the 429 of a throttle or the
// 403 after an authorizer's denial. Values are not escaped, so a quote in a value ends a JSON string (developer guide, "Gateway
// responses in API Gateway").
type Response struct {
	Status  int               // 0: the default status of the type
	Headers map[string]string // each one a literal in single quotes, or a variable such as context.authorizer.limit
	Body    string            // text with variables such as $context.authorizer.limit; "" means the default body
}

var reference = regexp.MustCompile(`\$context((?:\.[A-Za-z0-9_-]+)+)`)

// render returns a text with the values of its variables. Assumed: a variable without a value is empty text.
func render(text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(variable string) string { return values[strings.TrimPrefix(variable, "$context.")] })
}

// The default quotas for the time of an integration, which are also its defaults.
const (
	restWait = 29 * time.Second
	httpWait = 30 * time.Second
)

// ReadStack reads the parts of a Stack in a CloudFormation template that infra synthesizes. Variables that refer to
// resources are empty. The error names the resource that cannot be read.
func ReadStack(template []byte) (*Stack, error) {
	var document struct {
		Resources map[string]struct {
			Type       string
			Properties json.RawMessage
		}
	}
	if err := json.Unmarshal(template, &document); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	s := &Stack{REST: Stage{Wait: restWait}, HTTP: Stage{Wait: httpWait}, Responses: map[string]Response{}}
	for id, r := range document.Resources {
		read := s.readers()[r.Type]
		if read == nil {
			continue
		}
		if err := read(r.Properties); err != nil {
			return nil, fmt.Errorf("template: %s: %w", id, err)
		}
	}
	return s, nil
}

// readers returns the functions that read the properties of a resource, by its type.
func (s *Stack) readers() map[string]func(properties []byte) error {
	return map[string]func([]byte) error{
		"AWS::Lambda::Function":            s.readFunction,
		"AWS::ApiGateway::GatewayResponse": s.readResponse,
		"AWS::ApiGateway::Stage":           s.REST.read,
		"AWS::ApiGatewayV2::Stage":         s.HTTP.read,
	}
}

func (s *Stack) readFunction(properties []byte) error {
	var p struct {
		Timeout     int
		Environment struct{ Variables map[string]any }
	}
	if err := json.Unmarshal(properties, &p); err != nil {
		return err
	}
	f := Function{Environment: map[string]string{}, Timeout: time.Duration(p.Timeout) * time.Second}
	for name, value := range p.Environment.Variables {
		f.Environment[name], _ = value.(string)
	}
	switch f.Environment[contract.VariableFunction] {
	case contract.Authorizer:
		s.Authorizer = f
	case contract.Handler:
		s.Handler = f
	}
	return nil
}

func (s *Stack) readResponse(properties []byte) error {
	var p struct {
		ResponseType, StatusCode              string
		ResponseParameters, ResponseTemplates map[string]string
	}
	if err := json.Unmarshal(properties, &p); err != nil {
		return err
	}
	r := Response{Headers: map[string]string{}, Body: p.ResponseTemplates[defaultContentType]}
	r.Status, _ = strconv.Atoi(p.StatusCode)
	for key, value := range p.ResponseParameters {
		r.Headers[strings.TrimPrefix(key, "gatewayresponse.header.")] = value
	}
	s.Responses[p.ResponseType] = r
	return nil
}

// throttleJSON has the rate and the burst of a stage, in requests.
type throttleJSON struct {
	ThrottlingRateLimit  float64
	ThrottlingBurstLimit int64
}

func (s *Stage) read(properties []byte) error {
	var p struct {
		StageName            string
		DefaultRouteSettings throttleJSON   // of an HTTP API
		MethodSettings       []throttleJSON // of a REST API, for all methods
	}
	if err := json.Unmarshal(properties, &p); err != nil {
		return err
	}
	s.Name = p.StageName
	for _, t := range append(p.MethodSettings, p.DefaultRouteSettings) {
		if t == (throttleJSON{}) {
			continue
		}
		var err error
		s.Throttle, err = Throttle(t.ThrottlingRateLimit, t.ThrottlingBurstLimit)
		if err != nil {
			return err
		}
	}
	return nil
}

// Throttle returns the token bucket of a Stage with a rate, in requests a second, and a burst. The rate can be a fraction, but
// algo.Rate has whole requests, hence the window of 1,000 seconds.
func Throttle(rate float64, burst int64) (algo.Machine, error) {
	return algo.New(algo.Rate{
		Algorithm: algo.TokenBucket, Requests: int64(math.Round(rate * 1000)), Window: 1000 * time.Second, Burst: burst,
	})
}
