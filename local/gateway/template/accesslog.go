package template

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// AccessLog is the access log of the stage of a REST API.
type AccessLog struct {
	// Group is the name of the log group.
	Group string
	// Format is the format of a line.
	Format AccessFormat
	// Subscriptions are the subscription filters of the log group.
	Subscriptions []Subscription
}

// Subscription is an AWS::Logs::SubscriptionFilter that sends lines to a function.
type Subscription struct {
	ID       string // logical id
	Function string // logical id
	Filter   LineFilter
}

// AccessFormat is the format of a line of an access log: text with variables.
type AccessFormat []templatePart

// accessNames lists the variables of $context that only an access log has. The other variables of an
// access log are those of gateway responses.
var accessNames = []string{
	"authorizer.error", "authorizer.latency", "authorizer.status", "integrationLatency", "responseLatency",
	"responseLength", "status",
}

func parseAccessFormat(text string) (AccessFormat, error) {
	var format AccessFormat
	end := 0
	for _, at := range templateVariable.FindAllStringSubmatchIndex(text, -1) {
		v, err := parseAccessVariable(text[at[2]:at[3]])
		if err != nil {
			return nil, err
		}
		format = append(format, templatePart{text: text[end:at[0]]}, templatePart{variable: v})
		end = at[1]
	}
	format = append(format, templatePart{text: text[end:]})
	for _, part := range format {
		if at := templateReference.FindStringIndex(part.text); at != nil {
			return nil, fmt.Errorf("%.20q: unknown variable", part.text[at[0]:])
		}
	}
	return format, nil
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

// Render returns a line. A variable without a value is "-". Assumed: API Gateway does not escape values,
// as in a gateway response.
func (f AccessFormat) Render(lookUp func(Variable) (string, bool)) string {
	var b strings.Builder
	for _, part := range f {
		if part.variable.Source == "" {
			b.WriteString(part.text)
			continue
		}
		value, ok := lookUp(part.variable)
		if !ok {
			value = "-"
		}
		b.WriteString(value)
	}
	return b.String()
}

// LineFilter selects lines of a log group. The zero value selects every line.
type LineFilter struct {
	field, value string
	not          bool
}

// jsonFilter is the only form of a filter pattern that this package supports: one field of a JSON line,
// compared with text that has no wildcard.
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

// Selects reports whether the filter selects a line. A line that is not a JSON object, or that has no text
// in the field, is not selected.
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

// logsPrincipal is the service that sends log lines to functions.
const logsPrincipal = "logs.amazonaws.com"

// readAccessLog reads the access log of a stage. It returns nil if the stage has none.
func (d *parser) readAccessLog(q *properties) *AccessLog {
	settings := q.object("AccessLogSetting")
	if settings == nil {
		return nil
	}
	defer settings.done()
	destination, text := settings.required("DestinationArn"), settings.required("Format")
	format, err := parseAccessFormat(text)
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

// readSubscriptions reads the subscription filters of the access logs.
func (d *parser) readSubscriptions() {
	d.each("AWS::Logs::SubscriptionFilter", func(id string, q *properties) {
		group, destination := q.required("LogGroupName"), q.required("DestinationArn")
		filter, err := parseLineFilter(q.text("FilterPattern"))
		if err != nil {
			d.p.add(q.at("FilterPattern"), "%v", err)
		}
		q.inert("FilterName")
		f, ok := d.function(q, "DestinationArn", destination)
		if !ok {
			return
		}
		d.checkPermissionOf(logsPrincipal, strings.TrimSuffix(q.path, ".Properties"), f, logGroupARN(group)+":*")
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
