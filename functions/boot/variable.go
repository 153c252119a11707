package boot

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// ReadVariables sets the fields of the struct that config points to. The tag env of a field names its
// variable; "required" or "default=VALUE" may follow. An empty variable counts as unset, because a
// local run overrides some variables of the template with empty values. The error lists every invalid
// variable.
func ReadVariables(config any, lookup func(string) (string, bool)) error {
	target := reflect.ValueOf(config).Elem()
	var problems []error
	for _, field := range reflect.VisibleFields(target.Type()) {
		tag, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		name, rule, _ := strings.Cut(tag, ", ")
		text, _ := lookup(name)
		if text == "" && rule == "required" {
			problems = append(problems, fmt.Errorf("%s: required", name))
			continue
		} else if text == "" {
			text = strings.TrimPrefix(rule, "default=")
		}
		if text == "" {
			continue
		}
		if want := setVariable(target.FieldByIndex(field.Index), text); want != "" {
			problems = append(problems, fmt.Errorf("%s: got %q, want %s", name, text, want))
		}
	}
	return errors.Join(problems...)
}

// setVariable parses text as the type of a field and sets the field. If text is invalid, it returns a
// description of the allowed values.
func setVariable(field reflect.Value, text string) (want string) {
	var err error
	switch value := field.Addr().Interface().(type) {
	case *string:
		*value = text
	case *[]string:
		for item := range strings.SplitSeq(text, ",") {
			*value = append(*value, strings.TrimSpace(item))
		}
	case *bool:
		*value, err = strconv.ParseBool(text)
		want = "true or false"
	case *int:
		*value, err = strconv.Atoi(text)
		want = "an integer"
	case *int64:
		*value, err = strconv.ParseInt(text, 10, 64)
		want = "an integer"
	case *time.Duration:
		*value, err = time.ParseDuration(text)
		want = "a duration such as 100ms"
	default:
		return fmt.Sprintf("a type that ReadVariables supports (the field has %s)", field.Type())
	}
	if err == nil {
		return ""
	}
	return want
}
