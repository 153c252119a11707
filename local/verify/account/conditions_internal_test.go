package account

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Fn::If selects a value by a condition that the stack shows. resolve does not change a value whose condition is unknown.
func TestConditions_resolve(t *testing.T) {
	c := conditions{"Yes": true, "No": false}
	for text, want := range map[string]string{
		`{"Fn::If": ["Yes", 1, 2]}`:                                     `1`,
		`{"Fn::If": ["No", 1, 2]}`:                                      `2`,
		`{"Fn::If": ["Unknown", 1, 2]}`:                                 `{"Fn::If": ["Unknown", 1, 2]}`,
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
