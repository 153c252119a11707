package template

import (
	"fmt"
	"maps"
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
	"AWS::Region": region, "AWS::AccountId": Account, "AWS::Partition": partition,
	"AWS::URLSuffix": "amazonaws.com", "AWS::StackName": "local",
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
	"AWS::Lambda::Function":             "FunctionName",
	"AWS::Logs::LogGroup":               "LogGroupName",
}

// nameResources determines the value of a Ref to each resource. A name may refer to parameters but
// not to resources. Names therefore cannot form a cycle.
func (p *parser) nameResources() {
	names := map[string]string{}
	for id, r := range p.resources {
		names[id] = id
		if value, ok := r.Properties[nameProperty[r.Type]]; ok {
			name, ok := p.resolve(value).(string)
			if !ok {
				p.fail(id, "%s: want text, or a Ref to a parameter", nameProperty[r.Type])
			}
			names[id] = name
		}
	}
	maps.Copy(p.refs, names)
	for id, r := range p.resources { // a Ref to a version or an alias is its ARN
		function, _ := p.resolve(r.Properties["FunctionName"]).(string)
		switch r.Type {
		case "AWS::Lambda::Version":
			p.refs[id] = functionARN(function) + ":1"
		case "AWS::Lambda::Alias":
			p.refs[id] = fmt.Sprint(functionARN(function), ":", r.Properties["Name"])
		}
	}
}

// resolve replaces intrinsic functions with their values. A function that is not supported, or that
// refers to nothing, stays an object.
func (p *parser) resolve(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if value, ok := p.call(v); ok {
			return value
		}
		object := make(map[string]any, len(v))
		for key, each := range v {
			object[key] = p.resolve(each)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, each := range v {
			list[i] = p.resolve(each)
		}
		return list
	}
	return v
}

func (p *parser) call(v map[string]any) (value string, ok bool) {
	if len(v) != 1 {
		return "", false
	}
	if id, ok := v["Ref"].(string); ok {
		value, ok = p.refs[id]
		return value, ok
	}
	if at, ok := v["Fn::GetAtt"].([]any); ok && len(at) == 2 {
		return p.attribute(fmt.Sprint(at[0]), fmt.Sprint(at[1]))
	}
	join, ok := v["Fn::Join"].([]any)
	if !ok || len(join) != 2 {
		return "", false
	}
	list, ok := join[1].([]any)
	parts := make([]string, len(list))
	for i, each := range list {
		text, isText := p.resolve(each).(string)
		parts[i], ok = text, ok && isText
	}
	return strings.Join(parts, fmt.Sprint(join[0])), ok
}

// attribute returns an attribute of a resource. It invents those of a resource that no request reaches.
func (p *parser) attribute(id, name string) (value string, ok bool) {
	r, ok := p.resources[id]
	named, known := p.refs[id]
	if !ok || !known {
		return "", false
	}
	service, _, _ := strings.Cut(strings.TrimPrefix(r.Type, "AWS::"), "::")
	service = strings.ToLower(service)
	switch {
	case r.Type == "AWS::Lambda::Function" && name == "Arn":
		return functionARN(named), true
	case r.Type == "AWS::Logs::LogGroup" && name == "Arn":
		return logGroupARN(named) + ":*", true
	case strings.EqualFold(name, "arn"), strings.HasSuffix(name, "ARN"):
		return arn(service, named), true
	case strings.HasSuffix(name, "Port"):
		return "6379", true
	case strings.HasSuffix(name, "Address"):
		return strings.ToLower(named) + "." + service + ".invalid", true // RFC 6761: never resolves
	}
	return id + "." + name, true
}

func functionARN(name string) string { return arn("lambda", "function:"+name) }

func logGroupARN(name string) string { return arn("logs", "log-group:"+name) }

func arn(service, resource string) string {
	return strings.Join([]string{"arn", partition, service, region, Account, resource}, ":")
}
