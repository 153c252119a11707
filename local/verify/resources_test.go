package verify_test

import (
	"slices"
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
	tables, _ := template.Tables(t.Context())
	if want := []verify.Table{{Name: "Counters", TTL: "ttl"}, {Name: "Off"}}; !slices.Equal(tables, want) {
		t.Errorf("tables: got %v, want %v", tables, want)
	}
	alarms, _ := template.Alarms(t.Context())
	if want := []verify.Alarm{{Name: "A", Actions: 1}, {Name: "B", Actions: 1}, {Name: "C"}, {Name: "D"}}; !slices.Equal(alarms, want) {
		t.Errorf("alarms: got %v, want %v", alarms, want)
	}
}
