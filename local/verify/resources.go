package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Resources reads the resources of a deployment.
type Resources interface {
	// Tables returns the tables that hold counters.
	Tables(context.Context) ([]Table, error)
	// Alarms returns the alarms.
	Alarms(context.Context) ([]Alarm, error)
}

// Table is a DynamoDB table that holds counters.
type Table struct {
	Name string
	// TTL is the attribute by which DynamoDB deletes expired items. It is "" if DynamoDB deletes none.
	TTL string
}

// Alarm is an alarm of CloudWatch.
type Alarm struct {
	Name string
	// Actions is the number of actions that run when the alarm starts.
	Actions int
}

// Faults makes parts of a deployment fail.
type Faults interface {
	// BreakAuthorizer makes every call of the REST API's authorizer fail until restore is called.
	BreakAuthorizer(context.Context) (restore func(context.Context) error, err error)
}

// Template is the resources in a CloudFormation template. Create it with [ParseTemplate].
type Template struct {
	tables []Table
	alarms []Alarm
}

// ParseTemplate reads the resources in a template.
func ParseTemplate(document []byte) (*Template, error) {
	var t struct {
		Resources map[string]struct {
			Type           string
			DeletionPolicy string
			Properties     struct {
				TimeToLiveSpecification struct {
					AttributeName string
					Enabled       bool
				}
				AlarmActions   []json.RawMessage
				ActionsEnabled *bool
			}
		}
	}
	if err := json.Unmarshal(document, &t); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	r := &Template{}
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		resource := t.Resources[id]
		switch p := resource.Properties; resource.Type {
		case "AWS::DynamoDB::Table":
			if resource.DeletionPolicy == "Retain" { // the records table: its items do not expire
				continue
			}
			table := Table{Name: id}
			if p.TimeToLiveSpecification.Enabled {
				table.TTL = p.TimeToLiveSpecification.AttributeName
			}
			r.tables = append(r.tables, table)
		case "AWS::CloudWatch::Alarm":
			alarm := Alarm{Name: id, Actions: len(p.AlarmActions)}
			if p.ActionsEnabled != nil && !*p.ActionsEnabled {
				alarm.Actions = 0
			}
			r.alarms = append(r.alarms, alarm)
		}
	}
	return r, nil
}

// Tables implements [Resources].
func (t *Template) Tables(context.Context) ([]Table, error) { return t.tables, nil }

// Alarms implements [Resources].
func (t *Template) Alarms(context.Context) ([]Alarm, error) { return t.alarms, nil }
