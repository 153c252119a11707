package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
)

// schemeName is the name of the authorizer, and of its security scheme in an OpenAPI document.
const schemeName = "limiter"

// operations are the keys of an OpenAPI path that are limited methods. OPTIONS is never limited.
var operations = []string{"get", "put", "post", "delete", "head", "patch", "trace", "x-amazon-apigateway-any-method"}

// gatewayResponses is the key of the gateway responses in an OpenAPI document.
const gatewayResponses = "x-amazon-apigateway-gateway-responses"

// Definition returns an OpenAPI 3 document, in JSON, as the definition of a limited SpecRestApi. It
// adds the authorizer to the security of each operation except OPTIONS, and the gateway responses of the
// limits. Also call [Limits.Attach] for the API. Definition panics if the document is not OpenAPI 3 in
// JSON, if an operation already has a security, if a path has a $ref, or if the document has a gateway
// response that the limits also define.
func (l *Limits) Definition(document []byte) awsapigateway.ApiDefinition {
	var d map[string]any
	if err := json.Unmarshal(document, &d); err != nil {
		panic(fmt.Errorf("ratelimit: definition: %w; want OpenAPI 3 in JSON", err))
	}
	if version, _ := d["openapi"].(string); !strings.HasPrefix(version, "3.") {
		panic(fmt.Errorf("ratelimit: definition: openapi: got %q, want 3.x", version))
	}
	var problems []error
	for _, path := range references(d) {
		problems = append(problems, fmt.Errorf("ratelimit: definition: "+referenceProblem, path))
	}
	for name, operation := range operationsOf(d) {
		if others := security(d, operation); len(others) > 0 {
			problems = append(problems, fmt.Errorf("ratelimit: definition: %s already has a security (%v), want none, because an operation can "+
				"have only one authorizer; remove it, call the limiter inside it, or limit in the handler", name, others))
		}
		operation["security"] = []any{map[string]any{schemeName: []any{}}}
	}
	own := member(d, gatewayResponses)
	for kind, r := range definitions(responses(l.props.CORSOrigins)) {
		if own[kind] != nil {
			problems = append(problems, fmt.Errorf("ratelimit: definition: it already has a gateway response of type %s, want only that of the "+
				"limits; remove it", kind))
		}
		own[kind] = r
	}
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
		panic(errors.Join(problems...))
	}
	member(member(d, "components"), "securitySchemes")[schemeName] = map[string]any{
		"type": "apiKey", "name": "Unused", "in": "header", // API Gateway requires these values for a REQUEST authorizer
		"x-amazon-apigateway-authtype": "custom",
		"x-amazon-apigateway-authorizer": map[string]any{
			"type": "request", "authorizerUri": l.authorizerURI(l), "authorizerResultTtlInSeconds": 0,
		},
	}
	return awsapigateway.ApiDefinition_FromInline(d)
}

// definitions returns gateway responses as an object of an OpenAPI document, by type. They are not
// resources of the template, because each update of the document would delete them, and
// CloudFormation would not create them again.
func definitions(all []response) map[string]any {
	made := map[string]any{}
	for _, r := range all {
		parameters := map[string]any{}
		for name, value := range r.fields {
			parameters["gatewayresponse.header."+name] = value
		}
		definition := map[string]any{"responseParameters": parameters}
		if r.status != "" {
			definition["statusCode"], definition["responseTemplates"] = r.status, map[string]any{"application/json": r.body}
		}
		made[r.kind] = definition
	}
	return made
}

// operationsOf returns the operations of a document that are limited, by names such as "GET
// /orders".
func operationsOf(document map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	paths, _ := document["paths"].(map[string]any)
	for path, item := range paths {
		members, _ := item.(map[string]any)
		for _, name := range operations {
			if operation, ok := members[name].(map[string]any); ok {
				all[strings.ToUpper(strings.TrimSuffix(strings.TrimPrefix(name, "x-amazon-apigateway-"), "-method"))+" "+path] = operation
			}
		}
	}
	return all
}

// referenceProblem is the error for a path that references returns.
const referenceProblem = "%s has a $ref, whose operations would not be limited; put them in the path itself"

// references returns the paths of a document that have a $ref, sorted. operationsOf cannot see
// operations behind a $ref.
func references(document map[string]any) (paths []string) {
	all, _ := document["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		item, _ := all[path].(map[string]any)
		if _, ok := item["$ref"]; ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// security returns the names of an operation's security schemes, sorted. If the operation has no security, the
// security of the document applies.
func security(document, operation map[string]any) (names []string) {
	requirements, ok := operation["security"].([]any)
	if !ok {
		requirements, _ = document["security"].([]any)
	}
	for _, each := range requirements {
		requirement, _ := each.(map[string]any)
		names = append(names, slices.Sorted(maps.Keys(requirement))...)
	}
	return names
}

// member returns object[name], and adds an empty object if it is missing.
func member(object map[string]any, name string) map[string]any {
	m, ok := object[name].(map[string]any)
	if !ok {
		m = map[string]any{}
		object[name] = m
	}
	return m
}
