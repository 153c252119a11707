package account

import (
	"encoding/json"
	"testing"
)

// A deployed value equals the value in the template if it can be its result. Each other value is a difference.
func TestStack_differs(t *testing.T) {
	s := &Stack{
		region: "eu-west-1", parameters: map[string]string{"Namespace": "ma.in"},
		resources: []Resource{{ID: "Log", Physical: "weir-log"}, {ID: "Topic", Physical: "arn:aws:sns:eu-west-1:123456789012:topic"}},
	}
	for want, values := range map[string]struct{ equal, other []string }{
		`{"Fn::GetAtt": ["Log", "Arn"]}`:               {[]string{`"arn:aws:logs:eu-west-1:123456789012:log-group:weir-log:*"`, `"arn:aws:lambda:eu-west-1:123456789012:function:weir-log"`, `"arn:aws:dynamodb:eu-west-1:123456789012:table/weir-log"`}, []string{`"arn:aws:logs:eu-west-1:123456789012:log-group:weir-log:x"`, `"arn:aws:iam::123456789012:role/other-weir-log"`, `"weir-log"`, `["a", "b"]`}},
		`{"Fn::GetAtt": ["Topic", "Arn"]}`:             {[]string{`"arn:aws:sns:eu-west-1:123456789012:topic"`}, []string{`"arn:aws:sns:eu-west-1:123456789012:topic2"`}},
		`{"Fn::GetAtt": ["Log", "ARN"]}`:               {[]string{`"anything"`}, []string{`["anything"]`}},
		`{"Fn::GetAtt": ["Elsewhere", "Arn"]}`:         {[]string{`"anything"`}, []string{`{}`}},
		`{"Fn::Select": [0, {"Fn::GetAZs": ""}]}`:      {[]string{`"anything"`}, []string{`{}`}},
		`{"Ref": "Namespace"}`:                         {[]string{`"ma.in"`}, []string{`"maxin"`, `"ma.in2"`}},
		`{"Ref": "Elsewhere"}`:                         {[]string{`"anything"`}, []string{`{}`}},
		`{"Ref": "AWS::Region"}`:                       {[]string{`"eu-west-1"`}, []string{`"eu-west-2"`}},
		`{"Ref": "AWS::Partition"}`:                    {[]string{`"aws"`, `"aws-us-gov"`}, []string{`"amazon"`}},
		`{"Ref": "AWS::AccountId"}`:                    {[]string{`"123456789012"`}, []string{`"12345678901"`}},
		`{"Fn::Join": ["-", ["a.b", {"Ref": "Log"}]]}`: {[]string{`"a.b-weir-log"`}, []string{`"axb-weir-log"`, `"a.bweir-log"`}},
		`{"Fn::Join": ["-", {"Ref": "List"}]}`:         {[]string{`"anything"`}, []string{`[]`}},
		`["a", {"Ref": "Log"}]`:                        {[]string{`["a", "weir-log"]`}, []string{`["weir-log", "a"]`, `["a"]`, `["a", "weir-log", "b"]`}},
		`["a"]`:                                        {[]string{`["a"]`, `"a"`}, []string{`"b"`, `[]`}},
		`{"Action": "a", "Effect": "Allow"}`:           {[]string{`{"Action": "a", "Effect": "Allow"}`}, []string{`{"Action": "a"}`, `{"Action": "a", "Effect": "Allow", "Condition": {}}`, `"a"`}},
		`true`:                                         {[]string{`true`, `"true"`}, []string{`false`, `null`}},
	} {
		for _, got := range values.equal {
			if d := s.differs("policy", decode(t, want), decode(t, got)); d != "" {
				t.Errorf("%s, deployed as %s: got the difference %s, want none", want, got, d)
			}
		}
		for _, got := range values.other {
			if d := s.differs("policy", decode(t, want), decode(t, got)); d == "" {
				t.Errorf("%s, deployed as %s: got no difference, want one", want, got)
			}
		}
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
