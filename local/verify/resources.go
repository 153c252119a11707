package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-limits/weir/functions/contract"
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

// resource is a resource of a template. Its properties have the form of its type.
type resource struct {
	Type       string
	Properties json.RawMessage
}

// ParseTemplate reads the resources in a template. The tables of counters are those to which the variable
// TABLE of a function of Weir refers.
func ParseTemplate(document []byte) (*Template, error) {
	var t struct{ Resources map[string]resource }
	if err := json.Unmarshal(document, &t); err != nil {
		return nil, fmt.Errorf("not a CloudFormation template in JSON: %w", err)
	}
	r := &Template{}
	counters := map[string]bool{} // by logical ID
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		var err error
		switch found := t.Resources[id]; found.Type {
		case "AWS::Lambda::Function":
			err = found.addTable(counters)
		case "AWS::CloudWatch::Alarm":
			err = r.addAlarm(id, found)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(counters)) {
		if found := t.Resources[id]; found.Type == "AWS::DynamoDB::Table" {
			if err := r.addTable(id, found); err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
		}
	}
	return r, nil
}

// read decodes the properties of the resource, if it has any.
func (r resource) read(properties any) error {
	if r.Properties == nil {
		return nil
	}
	return json.Unmarshal(r.Properties, properties)
}

// addTable adds the logical ID of the table in which a function counts.
func (r resource) addTable(counters map[string]bool) error {
	var function struct {
		Environment struct{ Variables map[string]json.RawMessage }
	}
	if err := r.read(&function); err != nil {
		return err
	}
	variables := function.Environment.Variables
	if variables[contract.VariableFunction] == nil {
		return nil
	}
	var table struct{ Ref string }
	if json.Unmarshal(variables[contract.VariableTable], &table) == nil && table.Ref != "" { // a value without Ref is a name, or an import
		counters[table.Ref] = true
	}
	return nil
}

func (t *Template) addTable(id string, r resource) error {
	var table struct {
		TimeToLiveSpecification struct {
			AttributeName string
			Enabled       bool
		}
	}
	if err := r.read(&table); err != nil {
		return err
	}
	if !table.TimeToLiveSpecification.Enabled {
		table.TimeToLiveSpecification.AttributeName = ""
	}
	t.tables = append(t.tables, Table{id, table.TimeToLiveSpecification.AttributeName})
	return nil
}

func (t *Template) addAlarm(id string, r resource) error {
	var alarm struct {
		AlarmActions   json.RawMessage
		ActionsEnabled *bool
	}
	if err := r.read(&alarm); err != nil {
		return err
	}
	var actions []json.RawMessage
	if err := json.Unmarshal(alarm.AlarmActions, &actions); err != nil && alarm.AlarmActions != nil {
		actions = []json.RawMessage{alarm.AlarmActions} // an intrinsic function, such as Fn::If
	}
	if alarm.ActionsEnabled != nil && !*alarm.ActionsEnabled {
		actions = nil
	}
	t.alarms = append(t.alarms, Alarm{id, len(actions)})
	return nil
}

// Tables implements [Resources].
func (t *Template) Tables(context.Context) ([]Table, error) { return t.tables, nil }

// Alarms implements [Resources].
func (t *Template) Alarms(context.Context) ([]Alarm, error) { return t.alarms, nil }
