package lambdahttp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/weir-limits/weir/limiter/caller"
)

// errNobody is the error of a request whose host verifies no caller, although Environment.Host is set.
var errNobody = fmt.Errorf("%w: IDENTITY=host, but only API Gateway, or a function URL with IAM, verifies callers (a load balancer, an "+
	"open function URL, the authorizer of Weir and a server do not); set IDENTITY=weir", caller.ErrUnverified)

// authorized is what an authorizer adds to the context of a request. Only the host can write it.
type authorized struct {
	Claims map[string]json.RawMessage `json:"claims"` // with payload 1.0, of a JWT or Cognito authorizer
	JWT    struct {
		Claims map[string]json.RawMessage `json:"claims"`
	} `json:"jwt"`
	Lambda map[string]json.RawMessage                                    `json:"lambda"` // with payload 2.0, of a Lambda authorizer
	IAM    events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription `json:"iam"`
}

// unauthenticated marks the guests of an identity pool.
const unauthenticated = "unauthenticated"

// verified returns what the host of an event has verified about the caller: the claims of the API's authorizer, or else
// the IAM identity, or else the client certificate. An anonymous caller has no claims, and so has a guest of a Cognito identity
// pool, which gives anybody any number of identities. The event of a function URL has no such identity, so all guests are the user
// of their role there. It returns an error if the host verifies nobody. A nil event is a request without an event.
func (e *proxyEvent) verified(names caller.ClaimNames) (*caller.Claims, error) {
	if e == nil || e.host() == loadBalancer {
		return nil, errNobody
	}
	c := &e.RequestContext
	var a authorized
	var own map[string]json.RawMessage
	_ = json.Unmarshal(c.Authorizer, &a)   // members of other types are the owner's
	_ = json.Unmarshal(c.Authorizer, &own) // null without an authorizer
	identity, arn, by := c.Identity.CognitoID, c.Identity.UserARN, c.Identity.ClientCert
	if c.Identity.CognitoType == unauthenticated {
		identity, arn = "", ""
	}
	var claims caller.Claims
	switch {
	case e.host() == httpAPI:
		identity, arn, by = a.IAM.CognitoIdentity.IdentityID, a.IAM.UserARN, c.Authentication.ClientCert
		if arn == "" && e.functionURL() {
			return nil, errNobody
		}
		if slices.Contains(a.IAM.CognitoIdentity.AMR, unauthenticated) {
			identity, arn = "", ""
		}
		if a.JWT.Claims != nil {
			claims = names.Of(a.JWT.Claims, bracketed)
		} else {
			claims = names.Of(a.Lambda, nil)
		}
	case a.Claims != nil && e.Version != "":
		claims = names.Of(a.Claims, bracketed)
	case a.Claims != nil:
		claims = names.Of(a.Claims, cognitoList)
	default:
		claims = names.Of(own, nil)
	}
	switch {
	case claims.User != "":
	case identity != "":
		claims.User = identity
	case arn != "":
		claims.User = principal(arn)
	case by.SubjectDN != "":
		claims.User = by.SubjectDN
		claims.Values["issuerDN"], claims.Values["serialNumber"] = []string{by.IssuerDN}, []string{by.SerialNumber}
	}
	return &claims, nil
}

// bracketed returns the elements of a list in the claims of an HTTP API, such as [a b]. Their names cannot contain spaces.
func bracketed(_, text string) (list []string, ok bool) {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return nil, false
	}
	return strings.Fields(text[1 : len(text)-1]), true
}

// cognitoList returns the elements of a list in the claims of a REST API's Cognito authorizer, such as a,b. Its other
// claims are no lists. A JWT authorizer does not change lists.
func cognitoList(name, text string) (list []string, ok bool) {
	return strings.Split(text, ","), slices.Contains([]string{"cognito:groups", "cognito:roles"}, name)
}

// principal returns the ARN of an IAM identity without the name of a session, which its user can choose.
func principal(arn string) string {
	parts := strings.Split(arn, "/")
	switch {
	case strings.HasSuffix(parts[0], ":assumed-role") && len(parts) > 2:
		return parts[0] + "/" + parts[1]
	case strings.HasSuffix(parts[0], ":federated-user"):
		return parts[0]
	}
	return arn
}
