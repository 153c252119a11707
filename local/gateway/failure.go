package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
)

type failure struct {
	kind    string // gateway response type; empty if a template cannot customize this answer
	status  int
	code    string // value of the header x-amzn-ErrorType
	message string
	format  string // format of the default body: %s is the message as JSON
}

// The failures of a REST API. Types and statuses are from the developer guide, "Gateway response
// types for API Gateway". Codes and bodies are observed unless a comment calls them assumed.
var (
	missingToken = failure{kind: "MISSING_AUTHENTICATION_TOKEN", status: http.StatusForbidden,
		code: "MissingAuthenticationTokenException", message: "Missing Authentication Token"}
	// Assumed: the code of throttled.
	throttled = failure{kind: "THROTTLED", status: http.StatusTooManyRequests,
		code: "TooManyRequestsException", message: "Too Many Requests"}
	unauthorized = failure{kind: "UNAUTHORIZED", status: http.StatusUnauthorized,
		code: "UnauthorizedException", message: "Unauthorized"}
	implicitlyDenied = failure{kind: "ACCESS_DENIED", status: http.StatusForbidden,
		code: "AccessDeniedException", message: "User is not authorized to access this resource",
		format: `{"Message":%s}`}
	explicitlyDenied = failure{kind: "ACCESS_DENIED", status: http.StatusForbidden,
		code: "AccessDeniedException", message: "User is not authorized to access this resource with an explicit deny",
		format: `{"Message":%s}`}
	// If an authorizer fails, the answer has no message. Its body is {"message":null}.
	authorizerFailed = failure{kind: "AUTHORIZER_CONFIGURATION_ERROR", status: http.StatusInternalServerError,
		code: "AuthorizerConfigurationException"}
	// Assumed: the type DEFAULT_5XX. AWS documents no type for a function's failure.
	functionFailed = failure{kind: "DEFAULT_5XX", status: http.StatusBadGateway,
		code: "InternalServerErrorException", message: "Internal server error", format: `{"message": %s}`}
	integrationTimedOut = failure{kind: "INTEGRATION_TIMEOUT", status: http.StatusGatewayTimeout,
		code: "InternalServerErrorException", message: "Endpoint request timed out", format: `{"message": %s}`}
	// A template cannot customize these two failures. Assumed: both codes, and the body of
	// methodARNTooLong.
	eventTooLarge = failure{status: http.StatusRequestEntityTooLarge,
		code: "RequestTooLargeException", message: "Request Too Long"}
	methodARNTooLong = failure{status: http.StatusRequestURITooLong,
		code: "BadRequestException", message: "Request URI too long"}
)

// fallback returns DEFAULT_4XX or DEFAULT_5XX. A gateway response of this type applies if the
// template has none of type f.kind.
func (f failure) fallback() string {
	switch {
	case f.kind == "":
		return ""
	case f.status >= http.StatusInternalServerError:
		return "DEFAULT_5XX"
	}
	return "DEFAULT_4XX"
}

func (f failure) messageString() string {
	if f.message == "" {
		return "null"
	}
	quoted, _ := json.Marshal(f.message) // Marshal never fails for a string
	return string(quoted)
}

func (f failure) body() string {
	if f.format == "" {
		return fmt.Sprintf(`{"message":%s}`, f.messageString())
	}
	return fmt.Sprintf(f.format, f.messageString())
}
