package verify_test

import (
	"maps"
	"testing"

	"github.com/weir-limits/weir/local/verify"
)

// The tables of counters are those of Weir's functions. The actions of an alarm can be a function of
// CloudFormation, and an alarm can switch them off.
func TestParseTemplate(t *testing.T) {
	template, err := verify.ParseTemplate([]byte(`{"Resources":{
		"Counters":{"Type":"AWS::DynamoDB::Table","Properties":{"TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}},
		"Off":{"Type":"AWS::DynamoDB::Table","Properties":{"TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":false}}},
		"Orders":{"Type":"AWS::DynamoDB::Table","Properties":{}},
		"Authorizer":{"Type":"AWS::Lambda::Function","Properties":{"Environment":{"Variables":{"WEIR_FUNCTION":"authorizer","TABLE":{"Ref":"Counters"}}}}},
		"Handler":{"Type":"AWS::Lambda::Function","Properties":{"Environment":{"Variables":{"WEIR_FUNCTION":"handler","TABLE":{"Ref":"Off"}}}}},
		"Named":{"Type":"AWS::Lambda::Function","Properties":{"Environment":{"Variables":{"WEIR_FUNCTION":"handler","TABLE":"elsewhere"}}}},
		"Shop":{"Type":"AWS::Lambda::Function","Properties":{"Environment":{"Variables":{"TABLE":{"Ref":"Orders"}}}}},
		"A":{"Type":"AWS::CloudWatch::Alarm","Properties":{"AlarmActions":[{"Ref":"Topic"}]}},
		"B":{"Type":"AWS::CloudWatch::Alarm","Properties":{"AlarmActions":{"Fn::If":["C",[],[]]}}},
		"C":{"Type":"AWS::CloudWatch::Alarm","Properties":{"AlarmActions":["arn"],"ActionsEnabled":false}},
		"D":{"Type":"AWS::CloudWatch::Alarm"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"Counters": "ttl", "Off": ""}; !maps.Equal(template.TTL, want) {
		t.Errorf("tables: got %v, want %v", template.TTL, want)
	}
	if want := map[string]int{"A": 1, "B": 1, "C": 0, "D": 0}; !maps.Equal(template.Actions, want) {
		t.Errorf("alarms: got %v, want %v", template.Actions, want)
	}
}
