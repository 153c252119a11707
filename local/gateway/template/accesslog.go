package template

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// AccessLog is the access log of a REST API's stage.
type AccessLog struct {
	// Group is the name of the CloudWatch log group.
	Group  string
	Format Text // of one line
	// Subscriptions are the subscription filters of the log group, each with the function that gets
	// the lines.
	Subscriptions []Subscription
}

// Subscription is an AWS::Logs::SubscriptionFilter whose destination is a function.
type Subscription struct {
	ID       string // logical id of the filter
	Function string // logical id of the function
	Filter   LineFilter
}

// accessNames lists the $context variables that only access logs have. Access logs also have all
// variables of gateway responses.
var accessNames = []string{
	"authorizer.error", "authorizer.latency", "authorizer.status", "integrationLatency", "responseLatency",
	"responseLength", "status",
}

func parseAccessVariable(text string) (Variable, error) {
	for _, name := range accessNames {
		if text == "context."+name {
			return Variable{"context.", name}, nil
		}
	}
	if v, err := parseVariable(text); err == nil && strings.HasPrefix(v.Source, "context.") {
		return v, nil
	}
	return Variable{}, fmt.Errorf("%q: unknown variable of an access log", text)
}

// LineFilter is a subscription filter of one field, as CloudWatch Logs matches it to a line of JSON.
type LineFilter struct {
	field, value string
	not          bool
}

// jsonFilter matches the only supported filter pattern. It compares one field of a JSON line with a
// text without wildcards, for example { $.status = "500" }.
var jsonFilter = regexp.MustCompile(`^\{ *\$\.([A-Za-z0-9_]+) *(=|!=) *"([^"*\\]*)" *\}$`)

func parseLineFilter(pattern string) (LineFilter, error) {
	if pattern == "" {
		return LineFilter{}, nil
	}
	match := jsonFilter.FindStringSubmatch(pattern)
	if match == nil {
		return LineFilter{}, fmt.Errorf(`got %q, want { $.field = "text" } or { $.field != "text" }`, pattern)
	}
	return LineFilter{field: match[1], value: match[3], not: match[2] == "!="}, nil
}

// Selects reports whether the filter selects a line. It never selects a line that is not a JSON
// object or that lacks a text in the compared field.
func (f LineFilter) Selects(line string) bool {
	if f.field == "" {
		return true
	}
	var fields map[string]json.RawMessage
	var value string
	if json.Unmarshal([]byte(line), &fields) != nil || json.Unmarshal(fields[f.field], &value) != nil {
		return false
	}
	return (value == f.value) != f.not
}

const logsPrincipal = "logs.amazonaws.com"

// readAccessLog returns the access log of a stage, or nil if the stage has none.
func (d *parser) readAccessLog(q *properties) *AccessLog {
	settings := q.object("AccessLogSetting")
	if settings == nil {
		return nil
	}
	defer settings.done()
	destination, text := settings.required("DestinationArn"), settings.required("Format")
	format, err := parseText(text, parseAccessVariable)
	if err != nil {
		d.p.add(settings.at("Format"), "%v", err)
	}
	prefix := logGroupARN("")
	group, ok := strings.CutPrefix(strings.TrimSuffix(destination, ":*"), prefix)
	if !ok && destination != "" {
		settings.refuse("DestinationArn", destination, prefix+"<name of a log group>")
	}
	return &AccessLog{Group: group, Format: format}
}

// readSubscriptions reads the subscriptions of access logs. Lines in the logs of functions are not delivered here.
func (d *parser) readSubscriptions() {
	d.each("AWS::Logs::SubscriptionFilter", func(id string, q *properties) {
		group, destination := q.required("LogGroupName"), q.required("DestinationArn")
		q.inert("FilterName")
		if d.functionLogs[group] {
			q.inert("FilterPattern")
			return
		}
		filter, err := parseLineFilter(q.text("FilterPattern"))
		if err != nil {
			d.p.add(q.at("FilterPattern"), "%v", err)
		}
		f, ok := d.function(q, "DestinationArn", destination)
		if !ok {
			return
		}
		d.checkPermission(logsPrincipal, q, f, logGroupARN(group)+":*")
		for _, api := range d.template.REST {
			if api.AccessLog != nil && api.AccessLog.Group == group {
				api.AccessLog.Subscriptions = append(api.AccessLog.Subscriptions, Subscription{id, f.ID, filter})
				return
			}
		}
		q.refuse("LogGroupName", group, "the log group of the access log of a REST API")
	})
}

func logGroupARN(name string) string { return arn("logs", "log-group:"+name) }
