package ratelimit_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/jsii-runtime-go"

	"github.com/weir-limits/weir/infra/ratelimit"
	"github.com/weir-limits/weir/limiter/storetest"
)

// The function Notices exists only with a NoticeBus. It may only put events on this bus, and only
// the logs of functions that make decisions invoke it. The function Settle writes no notices.
func TestLimits_notices(t *testing.T) {
	for _, forward := range []bool{false, true} {
		app, stack, _ := newAPI(t)
		p := props(t)
		p.Settle = true
		if forward {
			p.NoticeBus = awsevents.EventBus_FromEventBusName(stack, jsii.String("Bus"), jsii.String("quotas"))
		}
		ratelimit.NewLimits(stack, jsii.String("Limits"), p)
		made := text(t, assertions.Template_FromStack(stack, nil).ToJSON())
		app.Synth(nil)
		for part, n := range map[string]int{
			`"AWS::Logs::SubscriptionFilter"`: 1, `"FilterPattern":"{ $.weir = \"notice\" }"`: 1, `"events:PutEvents"`: 1, `event-bus/quotas"`: 1, `"BUS":"quotas"`: 1,
			`"Principal":"logs.amazonaws.com","SourceAccount":{"Ref":"AWS::AccountId"},"SourceArn":{"Fn::GetAtt":["LimitsAuthorizerLogs`: 1,
		} {
			if !forward {
				n = 0
			}
			if got := strings.Count(made, part); got != n {
				t.Errorf("forward %t: got %s %d times, want %d", forward, part, got, n)
			}
		}
	}
}

// Notices puts each notice of a batch on the bus, ten per call. It ignores other lines, and the
// test message of CloudWatch Logs, which is not JSON. It fails if the bus rejects an event.
func TestNotices_forward(t *testing.T) {
	storetest.Program(t, "node")
	folder := t.TempDir()
	source, err := os.ReadFile("../../notices.js") // relative to testdata/shop, where the tests run
	if err != nil {
		t.Fatal(err)
	}
	const client = `exports.EventBridgeClient = class { async send(c) { console.log(JSON.stringify(c)); return { FailedEntryCount: Number(process.env.FAILED) }; } };
exports.PutEventsCommand = class { constructor(input) { Object.assign(this, input); } };`
	module := filepath.Join(folder, "node_modules", "@aws-sdk", "client-eventbridge")
	if err := os.MkdirAll(module, 0o755); err != nil {
		t.Fatal(err)
	}
	lines := []string{`{\"weir\":\"refused\",\"refused\":3}`}
	for i := range 11 {
		lines = append(lines, fmt.Sprintf(`{\"weir\":\"notice\",\"time\":\"2026-11-21T12:00:00Z\",\"id\":\"%d\",\"percent\":80}`, i))
	}
	packed := func(kind string, lines ...string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(`{"messageType":"` + kind + `","logEvents":[{"message":"` + strings.Join(lines, `"},{"message":"`) + `"}]}`)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return `{awslogs:{data:"` + base64.StdEncoding.EncodeToString(b.Bytes()) + `"}}`
	}
	run := `const { handler } = require("./index.js");
handler(` + packed("CONTROL_MESSAGE", "CWL CONTROL MESSAGE: Checking health of destination") + `).then(() => handler(` + packed("DATA_MESSAGE", lines...) + `)).catch((e) => { console.log(e.message); process.exit(1); });`
	for name, content := range map[string]string{"index.js": string(source), "run.js": run, "node_modules/@aws-sdk/client-eventbridge/index.js": client} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for failed, want := range map[string]string{"0": "", "1": "events rejected: 1 of 10"} {
		c := exec.CommandContext(t.Context(), "node", "run.js")
		c.Dir, c.Env = folder, []string{"BUS=quotas", "FAILED=" + failed}
		out, err := c.CombinedOutput()
		calls := strings.Count(string(out), `{"Entries":[`)
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) || want == "" && (calls != 2 || strings.Count(string(out), `"EventBusName":"quotas","Source":"weir","DetailType":"Weir Notice","Time":"2026-11-21T12:00:00.000Z"`) != 11 || strings.Contains(string(out), "refused")) {
			t.Errorf("%s rejected: got %d calls, error %v, output %s", failed, calls, err, out)
		}
	}
}
