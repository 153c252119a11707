package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/limiter/dynamostore"
)

// Faults makes parts of a deployment fail.
type Faults interface {
	// BreakAuthorizer makes every call of the REST API's authorizer fail until restore is called.
	BreakAuthorizer(context.Context) (restore func(context.Context) error, err error)
}

// Template is what a CloudFormation template states about counters and alarms. Create it with [ParseTemplate]. Whether the
// deployed resources are as in the template is the subject of rows with [NeedStack].
type Template struct {
	// TTL is the attribute by which DynamoDB deletes expired items, by the table of counters. It is "" if
	// DynamoDB deletes none.
	TTL map[string]string
	// Actions is the number of actions that run when an alarm starts, by alarm.
	Actions map[string]int
}

// ParseTemplate reads the resources in a template. The tables of counters are those to which the variable
// TABLE of a function of Weir refers.
func ParseTemplate(document []byte) (*Template, error) {
	var t struct {
		Resources map[string]struct {
			Type       string
			Properties any
		}
	}
	if err := json.Unmarshal(document, &t); err != nil {
		return nil, fmt.Errorf("not a CloudFormation template in JSON: %w", err)
	}
	read := &Template{TTL: map[string]string{}, Actions: map[string]int{}}
	for id, r := range t.Resources {
		switch r.Type {
		case "AWS::Lambda::Function":
			variables := At(r.Properties, "Environment", "Variables")
			// A table without Ref is a name, or an import.
			table, ok := At(variables, contract.VariableTable, "Ref").(string)
			if ok && At(variables, contract.VariableFunction) != nil && t.Resources[table].Type == "AWS::DynamoDB::Table" {
				read.TTL[table] = ""
				if ttl := At(t.Resources[table].Properties, "TimeToLiveSpecification"); At(ttl, "Enabled") == true {
					read.TTL[table], _ = At(ttl, "AttributeName").(string)
				}
			}
		case "AWS::CloudWatch::Alarm":
			actions := At(r.Properties, "AlarmActions")
			list, ok := actions.([]any)
			if !ok && actions != nil {
				list = []any{actions} // an intrinsic function, such as Fn::If
			}
			if At(r.Properties, "ActionsEnabled") == false {
				list = nil
			}
			read.Actions[id] = len(list)
		}
	}
	return read, nil
}

// At returns the value at a path of keys in a decoded template, or nil.
func At(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

var resourceRows = []Row{
	{
		ID:    "table-ttl",
		Claim: "DynamoDB deletes expired counters.",
		Hand:  "`aws dynamodb describe-time-to-live --table-name …`",
		Needs: []Need{NeedResources},
		Check: func(_ context.Context, s *session) Observation {
			if len(s.Template.TTL) == 0 {
				return skipped("no table holds counters")
			}
			expected := "a time to live by the attribute " + dynamostore.TTLAttribute
			for _, table := range slices.Sorted(maps.Keys(s.Template.TTL)) {
				if ttl := s.Template.TTL[table]; ttl != dynamostore.TTLAttribute {
					return failed(expected, fmt.Sprintf("%s has the attribute %q", table, ttl), "")
				}
			}
			return passed(expected, fmt.Sprintf("%d of %[1]d tables", len(s.Template.TTL)))
		},
	},
	{
		ID:    "alarm-actions",
		Claim: "Each alarm has an action.",
		Hand:  "`aws cloudwatch describe-alarms --alarm-name-prefix weir-dev-`",
		Needs: []Need{NeedResources},
		Check: func(_ context.Context, s *session) Observation {
			if len(s.Template.Actions) == 0 {
				return skipped("no alarm")
			}
			const expected = "an action of each alarm"
			for _, alarm := range slices.Sorted(maps.Keys(s.Template.Actions)) {
				if s.Template.Actions[alarm] == 0 {
					return failed(expected, alarm+" has no action", "")
				}
			}
			return passed(expected, fmt.Sprintf("%d of %[1]d alarms", len(s.Template.Actions)))
		},
	},
}
