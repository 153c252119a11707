package account

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/local/verify"
)

// A function that Lambda does not run fails its rows. A function outside a network proves nothing about the network.
func TestStack_functionsActive(t *testing.T) {
	for _, c := range []struct {
		configuration   string
		active, network verify.Outcome
	}{
		{`{"State": "Active", "VpcConfig": {"SubnetIds": ["subnet-1"]}}`, verify.Pass, verify.Pass},
		{`{"State": "Active", "VpcConfig": {"SubnetIds": []}}`, verify.Pass, verify.Skip},
		{`{"State": "Failed", "StateReason": "EniLimitExceeded", "VpcConfig": {"SubnetIds": ["subnet-1"]}}`, verify.Fail, verify.Fail},
		{`{"State": "Inactive", "StateReason": "EniLimitExceeded"}`, verify.Fail, verify.Skip},
	} {
		s := &Stack{
			clients:   clients{functions: lambda.NewFromConfig(client(serve(t, c.configuration)))},
			resources: []Resource{{Type: functionType, Physical: "f", Properties: map[string]any{"Environment": map[string]any{"Variables": map[string]any{contract.VariableNamespace: "dev"}}}}},
		}
		for row, want := range map[string]verify.Outcome{"functions-active": c.active, "vpc-policy": c.network} {
			if o := s.Check(t.Context(), row); o.Outcome != want || want == verify.Fail && !strings.Contains(o.Raw, "EniLimitExceeded") {
				t.Errorf("%s, %s: got %+v, want %s", c.configuration, row, o, want)
			}
		}
	}
}

// An alarm that has no data after 15 minutes fails its row.
func TestStack_alarmStates(t *testing.T) {
	for _, c := range []struct {
		state string
		age   time.Duration
		want  verify.Outcome
	}{
		{"OK", time.Hour, verify.Pass}, {"ALARM", time.Hour, verify.Pass}, {"INSUFFICIENT_DATA", time.Minute, verify.Pass}, {"INSUFFICIENT_DATA", time.Hour, verify.Fail},
	} {
		answer := "<DescribeAlarmsResponse><DescribeAlarmsResult><MetricAlarms><member><AlarmName>a</AlarmName><StateValue>" + c.state + "</StateValue><ActionsEnabled>true</ActionsEnabled><AlarmActions><member>topic</member></AlarmActions><AlarmConfigurationUpdatedTimestamp>" +
			time.Now().Add(-c.age).UTC().Format(time.RFC3339) + "</AlarmConfigurationUpdatedTimestamp></member></MetricAlarms></DescribeAlarmsResult></DescribeAlarmsResponse>"
		s := &Stack{clients: clients{watch: cloudwatch.NewFromConfig(client(serve(t, answer)), queryProtocol)}, resources: []Resource{{ID: "Alarm", Type: alarmType, Physical: "a"}}}
		if o := s.Check(t.Context(), "alarm-states"); o.Outcome != c.want {
			t.Errorf("%s for %s: got %+v, want %s", c.state, c.age, o, c.want)
		}
	}
}
