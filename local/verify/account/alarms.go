package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"github.com/weir-limits/weir/local/verify"
)

const alarmType = "AWS::CloudWatch::Alarm"

// alarms returns the alarms of the stack, by logical id.
func (s *Stack) alarms(ctx context.Context) map[string]types.MetricAlarm {
	ids, names := map[string]string{}, []string{}
	for _, r := range s.of(alarmType) {
		ids[r.Physical] = r.ID
		names = append(names, r.Physical)
	}
	found := map[string]types.MetricAlarm{}
	for batch := range slices.Chunk(names, 100) { // the maximum of one call
		out, err := s.watch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: batch, MaxRecords: aws.Int32(100)})
		if !s.keep(err) {
			return nil
		}
		for _, a := range out.MetricAlarms {
			found[ids[aws.ToString(a.AlarmName)]] = a
		}
	}
	for _, id := range ids {
		if _, ok := found[id]; !ok {
			s.keep(fmt.Errorf("alarm %s: not in CloudWatch", id))
		}
	}
	return found
}

// settled is the time after which an alarm of a new stack has a state.
const settled = 15 * time.Minute

// alarmStates tests that alarms have data, or a state without data, and that their actions run. A template does not set
// whether they run, so CloudFormation does not compare it.
func (s *Stack) alarmStates(ctx context.Context) verify.Observation {
	found := s.alarms(ctx)
	var problems []string
	for _, id := range sorted(found) {
		a := found[id]
		changed := aws.ToTime(a.AlarmConfigurationUpdatedTimestamp)
		problems = slices.Concat(problems, problem(!aws.ToBool(a.ActionsEnabled) || len(a.AlarmActions) == 0, "%s: runs no action", id),
			problem(a.StateValue == types.StateValueInsufficientData && time.Since(changed) > settled, "%s: INSUFFICIENT_DATA; check the names of its metrics", id))
	}
	return verdict("a state and an action of each alarm", fmt.Sprintf("%d alarms", len(found)), problems)
}

// historyReads is the number of reads of an alarm's history, 5 s apart.
const historyReads = 12

// alarmTopic starts the alarm "degraded" and reads the history of the alarm, which has a line for each
// action.
func (s *Stack) alarmTopic(ctx context.Context) (o verify.Observation) {
	alarm, ok := s.named(alarmType, "-degraded")
	if !ok {
		return skipped("the stack has no alarm degraded")
	}
	before := s.alarms(ctx)[alarm.ID]
	if s.err != nil {
		return o
	}
	if before.StateValue == types.StateValueAlarm {
		return skipped("the alarm degraded is in the state ALARM, so it cannot start; run again later")
	}
	set := func(value types.StateValue) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.watch.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{AlarmName: &alarm.Physical, StateValue: value, StateReason: aws.String("weir verify")})
			return err
		}
	}
	undo, err := s.change(ctx, "the state of the alarm "+alarm.Physical,
		fmt.Sprintf("aws cloudwatch set-alarm-state --alarm-name %s --state-value %s --state-reason restored", alarm.Physical, before.StateValue),
		set(types.StateValueAlarm), set(before.StateValue))
	if !s.keep(err) {
		return o
	}
	defer func() { _ = undo(ctx) }() // Left reports the error
	return s.awaitAction(ctx, alarm)
}

func (s *Stack) awaitAction(ctx context.Context, alarm Resource) verify.Observation {
	started := time.Now().Add(-time.Minute) // clocks can differ
	var lines []string
	for range historyReads {
		out, err := s.watch.DescribeAlarmHistory(ctx, &cloudwatch.DescribeAlarmHistoryInput{AlarmName: &alarm.Physical, HistoryItemType: types.HistoryItemTypeAction, StartDate: &started})
		if !s.keep(err) {
			return verify.Observation{}
		}
		lines = nil
		for _, item := range out.AlarmHistoryItems {
			lines = append(lines, aws.ToString(item.HistorySummary))
		}
		if slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Successfully executed action") }) {
			return verdict("an executed action", "executed", nil)
		}
		if !s.pause(ctx, 5*time.Second) {
			return verify.Observation{}
		}
	}
	return verdict("an executed action", "", append(lines, "no executed action in the history of "+alarm.ID))
}

// named returns the resource of a type whose physical id ends with a suffix.
func (s *Stack) named(kind, suffix string) (Resource, bool) {
	for _, r := range s.of(kind) {
		if strings.HasSuffix(r.Physical, suffix) {
			return r, true
		}
	}
	return Resource{}, false
}
