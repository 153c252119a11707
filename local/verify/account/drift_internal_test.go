package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/weir-limits/weir/local/verify"
)

// result returns the result of a resource in the answer of DescribeStackResourceDrifts.
func result(id, status, at, differences string) string {
	return fmt.Sprintf("<member><LogicalResourceId>%s</LogicalResourceId><StackResourceDriftStatus>%s</StackResourceDriftStatus><Timestamp>2026-11-22T%sZ</Timestamp><PropertyDifferences>%s</PropertyDifferences></member>", id, status, at, differences)
}

// A resource that differs or is missing fails the row. If CloudFormation compared only a part of the resources, or does
// not end, the row is skipped.
func TestStack_drift(t *testing.T) {
	const memory = "<member><PropertyPath>/MemorySize</PropertyPath><ExpectedValue>512</ExpectedValue><ActualValue>128</ActualValue><DifferenceType>NOT_EQUAL</DifferenceType></member>"
	const secret = "<member><PropertyPath>/DistributionConfig/Origins/0/OriginCustomHeaders/0/HeaderValue</PropertyPath><ExpectedValue>secret</ExpectedValue><ActualValue>secret</ActualValue><DifferenceType>NOT_EQUAL</DifferenceType></member>"
	const complete, failed = "<DetectionStatus>DETECTION_COMPLETE</DetectionStatus>", "<DetectionStatus>DETECTION_FAILED</DetectionStatus><DetectionStatusReason>internal failure</DetectionStatusReason>"
	const before, during = "11:59:59", "12:00:01"
	same := result("Table", "IN_SYNC", during, "")
	for _, c := range []struct {
		name, status string
		pages        []string
		outcome      verify.Outcome
		text         string
		reads        int
	}{
		{"no difference", complete, []string{same, result("Function", "IN_SYNC", during, "")}, verify.Pass, "2 of 3 resources compared", 3},
		{"another value", complete, []string{same, result("Function", "MODIFIED", during, memory)}, verify.Fail, "Function: /MemorySize: got 128, want 512", 3},
		{"another secret", complete, []string{same, result("Function", "MODIFIED", during, secret)}, verify.Fail, "Function: /DistributionConfig/Origins/0/OriginCustomHeaders/0/HeaderValue: differs; the values are not shown, because they can contain the secret of the distribution", 3},
		{"a deleted resource", complete, []string{result("Function", "DELETED", during, ""), same}, verify.Fail, "Function: deleted", 3},
		{"an extra resource that differs", failed, []string{same + result("Role", "MODIFIED", during, memory)}, verify.Fail, "Role: /MemorySize: got 128, want 512", 3},
		{"a resource without a result", complete, []string{same}, verify.Skip, "no difference in 1 resources, but did not compare Function (AWS::Lambda::Function)", 3},
		{"an unknown result", failed, []string{same, result("Function", "UNKNOWN", during, "")}, verify.Skip, "internal failure", 3},
		{"a result of an earlier detection", complete, []string{same, result("Function", "IN_SYNC", before, "")}, verify.Skip, "did not compare Function", 3},
		{"an endless detection", "", nil, verify.Skip, "did not end within 10m0s", driftReads},
	} {
		t.Run(c.name, func(t *testing.T) {
			reads := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				action, body := r.FormValue("Action"), ""
				switch action {
				case "DetectStackDrift":
					body = "<StackDriftDetectionId>detection</StackDriftDetectionId>"
				case "DescribeStackDriftDetectionStatus":
					body = "<DetectionStatus>DETECTION_IN_PROGRESS</DetectionStatus>"
					if reads++; reads == 3 && c.status != "" {
						body = c.status
					}
					body += "<Timestamp>2026-11-22T12:00:00Z</Timestamp>"
				case "DescribeStackResourceDrifts":
					page := len(r.FormValue("NextToken"))
					body = "<StackResourceDrifts>" + c.pages[page] + "</StackResourceDrifts>"
					if page+1 < len(c.pages) {
						body += "<NextToken>n</NextToken>"
					}
				}
				fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, body)
			}))
			t.Cleanup(server.Close)
			var log strings.Builder
			s := &Stack{
				Name: "s", Log: &log, Wait: func(context.Context, time.Duration) error { return nil },
				clients:   clients{formation: cloudformation.NewFromConfig(client(server.URL))},
				resources: []Resource{{ID: "Table", Type: tableType}, {ID: "Function", Type: functionType}, {ID: "Policy", Type: policyType}},
			}
			o := s.Check(t.Context(), "drift")
			if text := o.Observed + o.Raw + o.Reason; o.Outcome != c.outcome || !strings.Contains(text, c.text) || reads != c.reads {
				t.Errorf("got %+v after %d reads, want %s with %q after %d reads", o, reads, c.outcome, c.text, c.reads)
			}
			if !strings.Contains(log.String(), "waiting at most 10m0s") {
				t.Errorf("log: got %q, want the longest wait", log.String())
			}
		})
	}
}

func serve(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	t.Cleanup(server.Close)
	return server.URL
}
