package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// The values of the pseudo parameters, such as AWS::Region. Nothing is deployed, so the account
// number is the example in AWS's documentation.
const (
	region    = "us-east-1"
	Account   = "123456789012"
	partition = "aws"
)

var pseudoParameters = map[string]string{
	"AWS::Region":    region,
	"AWS::AccountId": Account,
	"AWS::Partition": partition,
	"AWS::URLSuffix": "amazonaws.com",
	"AWS::StackName": "local",
}

// nameProperty has, by resource type, the property that names a resource. A Ref to a resource of
// such a type returns the name; any other Ref returns the logical id.
var nameProperty = map[string]string{
	"AWS::ApiGateway::Stage":            "StageName",
	"AWS::ApiGatewayV2::Stage":          "StageName",
	"AWS::DynamoDB::GlobalTable":        "TableName",
	"AWS::DynamoDB::Table":              "TableName",
	"AWS::ElastiCache::ServerlessCache": "ServerlessCacheName",
	"AWS::ElastiCache::User":            "UserId",
	"AWS::IAM::Role":                    "RoleName",
	"AWS::Lambda::Alias":                "Name",
	"AWS::Lambda::Function":             "FunctionName",
	"AWS::Logs::LogGroup":               "LogGroupName",
}

// maxResolved is the maximum number of bytes that all intrinsic functions of a template produce.
// Without it, a small template could expand to gigabytes.
const maxResolved = 4 << 20

// resolver replaces intrinsic functions with their values.
type resolver struct {
	resources  map[string]declaration
	parameters map[string]string
	names      map[string]string // key: logical id
	made       int               // total bytes of text that intrinsic functions have produced
}

// nameResources determines the name of every resource. A name may refer to parameters but not to
// resources. Names therefore cannot form a cycle.
func (r *resolver) nameResources(p *problems) {
	names := make(map[string]string, len(r.resources))
	for id, res := range r.resources {
		names[id] = id
		property := nameProperty[res.kind]
		value, ok := res.properties[property]
		if !ok {
			continue
		}
		name, err := r.text(value)
		if err != nil {
			p.add(res.path+".Properties."+property, "%v", err)
			continue
		}
		names[id] = name
	}
	r.names = names
	r.qualifyFunctions()
}

// onlyVersion is the number of every version, because all versions of a function run the same code
// here.
const onlyVersion = "1"

// qualifyFunctions sets the names of versions and aliases to their ARNs, because a Ref to a version
// or an alias returns its ARN.
func (r *resolver) qualifyFunctions() {
	qualified := map[string]string{}
	for id, res := range r.resources {
		qualifier := onlyVersion
		switch res.kind {
		case "AWS::Lambda::Alias":
			qualifier = r.names[id]
		case "AWS::Lambda::Version":
		default:
			continue
		}
		// An error has no effect here, because readFunctions reports it later.
		function, err := r.text(res.properties["FunctionName"])
		if err == nil && !strings.HasPrefix(function, functionARN("")) {
			function = functionARN(function)
		}
		qualified[id] = function + ":" + qualifier
	}
	maps.Copy(r.names, qualified)
}

func (r *resolver) resolve(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 1 {
			for key, argument := range v {
				if key == "Ref" || strings.HasPrefix(key, "Fn::") {
					return r.call(key, argument)
				}
			}
		}
		object := make(map[string]any, len(v))
		for key, each := range v {
			value, err := r.resolve(each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			object[key] = value
		}
		return object, nil
	case []any:
		list := make([]any, len(v))
		for i, each := range v {
			value, err := r.resolve(each)
			if err != nil {
				return nil, err
			}
			list[i] = value
		}
		return list, nil
	}
	return v, nil
}

func (r *resolver) text(v any) (string, error) {
	value, err := r.resolve(v)
	if err != nil {
		return "", err
	}
	text, ok := asText(value)
	if !ok {
		return "", fmt.Errorf("got %s, want text", describe(value))
	}
	return text, nil
}

func asText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// describe returns the kind of a JSON value, such as "a list", for an error.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	case string:
		if len(v) > 100 {
			v = v[:100] + "..."
		}
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v)
}
