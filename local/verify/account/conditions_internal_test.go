package account

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Fn::If selects a value by the parameters. resolve does not change a value that only CloudFormation can
// evaluate.
func TestConditions_resolve(t *testing.T) {
	const template = `{
		"Yes": {"Fn::Equals": [{"Ref": "Store"}, "cache"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]},
		"Both": {"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]}, "Either": {"Fn::Or": [{"Condition": "No"}, {"Condition": "Yes"}]},
		"Unknown": {"Fn::Equals": [{"Fn::FindInMap": ["a", "b", "c"]}, "d"]}, "Part": {"Fn::And": [{"Condition": "Yes"}, {"Condition": "Unknown"}]}
	}`
	c := conditions{parameters: map[string]string{"Store": "cache"}}
	if err := json.Unmarshal([]byte(template), &c.named); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"Fn::If": ["Yes", 1, 2]}`:                                     `1`,
		`{"Fn::If": ["No", 1, 2]}`:                                      `2`,
		`{"Fn::If": ["Both", 1, 2]}`:                                    `2`,
		`{"Fn::If": ["Either", 1, 2]}`:                                  `1`,
		`{"Fn::If": ["Unknown", 1, 2]}`:                                 `{"Fn::If": ["Unknown", 1, 2]}`,
		`{"Fn::If": ["Part", 1, 2]}`:                                    `{"Fn::If": ["Part", 1, 2]}`,
		`{"Fn::If": ["Missing", 1, 2]}`:                                 `{"Fn::If": ["Missing", 1, 2]}`,
		`{"a": {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, "b": 2}`: `{"b": 2}`,
		`[{"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}, 2]`:           `[2]`,
		`{"Fn::If": ["Yes", {"Fn::If": ["No", 1, [3]]}, 2]}`:            `[3]`,
	} {
		var value, expected any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if got := c.resolve(value); !reflect.DeepEqual(got, expected) {
			t.Errorf("%s: got %v, want %s", text, got, want)
		}
	}
}
