package verify

import (
	"context"
	"fmt"

	"github.com/weir-limits/weir/limiter/dynamostore"
)

var resourceRows = []Row{
	{
		ID:    "table-ttl",
		Claim: "DynamoDB deletes expired counters.",
		Hand:  "`aws dynamodb describe-time-to-live --table-name …`",
		Needs: []Need{NeedResources},
		Check: func(ctx context.Context, s *session) Observation {
			tables, err := s.Resources.Tables(ctx)
			if err != nil {
				return unread(err)
			}
			if len(tables) == 0 {
				return skipped("no table holds counters")
			}
			expected := "a time to live by the attribute " + dynamostore.TTLAttribute
			for _, t := range tables {
				if t.TTL != dynamostore.TTLAttribute {
					return failed(expected, fmt.Sprintf("%s has the attribute %q", t.Name, t.TTL), "")
				}
			}
			return passed(expected, fmt.Sprintf("%d of %d tables", len(tables), len(tables)))
		},
	},
	{
		ID:    "alarm-actions",
		Claim: "Each alarm has an action.",
		Hand:  "`aws cloudwatch describe-alarms --alarm-name-prefix weir-dev-`",
		Needs: []Need{NeedResources},
		Check: func(ctx context.Context, s *session) Observation {
			alarms, err := s.Resources.Alarms(ctx)
			if err != nil {
				return unread(err)
			}
			if len(alarms) == 0 {
				return skipped("no alarm")
			}
			const expected = "an action of each alarm"
			for _, a := range alarms {
				if a.Actions == 0 {
					return failed(expected, a.Name+" has no action", "")
				}
			}
			return passed(expected, fmt.Sprintf("%d of %d alarms", len(alarms), len(alarms)))
		},
	},
}

// unread is the observation of a row whose resources could not be read.
func unread(err error) Observation { return failed("readable resources", err.Error(), "") }
