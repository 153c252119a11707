package telemetry_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/telemetry"
)

// The first outcome is written at once. Later outcomes are written with the first outcome after a
// second.
func ExampleRecorder() {
	var out strings.Builder
	r := telemetry.New(&out, "dev", telemetry.NewSubjectHash("dev", []byte("from a store of secrets")))
	now, alice := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), caller.Caller{User: "alice"}
	r.Record(outcomeOf(now, 5*time.Millisecond, alice, limiter.Decision{Allowed: true}, nil))
	for range 17 {
		r.Record(outcomeOf(now, 0, alice, limiter.Decision{Allowed: true}, caller.ErrInvalidCredential))
	}
	r.Record(outcomeOf(now.Add(time.Minute/2), 0, alice, limiter.Decision{}, nil))
	fmt.Print(strings.NewReplacer(`,"_aws"`, ",\n"+`"_aws"`, ",{", ",\n{").Replace(out.String()))
	// Output:
	// {"Allowed":1,"Latency":[5],"Refused":0,
	// "_aws":{"CloudWatchMetrics":[{"Dimensions":[[]],"Metrics":[{"Name":"Allowed","Unit":"Count"},
	// {"Name":"Refused","Unit":"Count"},
	// {"Name":"Latency","Unit":"Milliseconds"}],"Namespace":"Weir/dev"}],"Timestamp":1772625600005}}
	// {"Allowed":0,"Latency":[0],"Refused":1,"Unauthorized":17,
	// "_aws":{"CloudWatchMetrics":[{"Dimensions":[[]],"Metrics":[{"Name":"Allowed","Unit":"Count"},
	// {"Name":"Refused","Unit":"Count"},
	// {"Name":"Unauthorized","Unit":"Count"},
	// {"Name":"Latency","Unit":"Milliseconds"}],"Namespace":"Weir/dev"}],"Timestamp":1772625630000}}
	// {"weir":"refused","time":"2026-03-04T12:00:30Z","subject":"3391c2a9a8625702","count":1}
}
