package examples_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	samples "github.com/weir-limits/weir/events"
	"github.com/weir-limits/weir/functions/contract"
	"github.com/weir-limits/weir/functions/lambdahttp"
	"github.com/weir-limits/weir/functions/mac"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/caller"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
	"github.com/weir-limits/weir/limiter/rules/live"
	"github.com/weir-limits/weir/limiter/storetest"
)

// backEnd has files around the handler of functions/SETTLE.md: what it imports, and a program that passes it the event in its
// standard input. The client of Lambda prints the invocation.
var backEnd = map[string]string{
	"model.mjs": "export const complete = async () => ({ text: 'hi', input: 12, output: 34 });",
	"node_modules/@aws-sdk/client-lambda/package.json": `{"type":"module","exports":"./index.js"}`,
	"node_modules/@aws-sdk/client-lambda/index.js": "export class InvokeCommand { constructor(input) { this.input = input; } }\n" +
		"export class LambdaClient { async send(c) { process.stdout.write(c.input.Payload); return {}; } }",
	"main.mjs": "import { readFileSync } from 'node:fs';\nimport { handler } from './handler.mjs';\n" +
		"const answer = await handler(JSON.parse(readFileSync(0)));\nif (answer.statusCode !== 200) process.exit(1);",
}

// The authorizer before a foreign back end only looks. The back end of functions/SETTLE.md, in Node.js, reports the cost to the
// function log, which charges it. The authorizer then refuses.
func TestExamples_report(t *testing.T) {
	storetest.Program(t, "node")
	page, folder := string(storetest.Must(os.ReadFile("../../../functions/SETTLE.md"))), t.TempDir()
	_, after, _ := strings.Cut(page, "```js\n")
	handler, _, found := strings.Cut(after, "```\n")
	if !found {
		t.Fatal("functions/SETTLE.md: got no handler in JavaScript, want one")
	}
	write := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("handler.mjs", handler)
	for name, text := range backEnd {
		write(name, text)
	}
	logger := slog.New(slog.DiscardHandler)
	e := &lambdahttp.Environment{
		Limiter: storetest.Must(limiter.New(storetest.Must(memstore.New(memstore.Options{})), limiter.Options{Logger: logger})),
		Rules: live.Fixed(storetest.Must(rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":[
			{"name":"input","requests":12,"window":"1h","per":["ip"],"count":"cost","reserve":1},
			{"name":"output","requests":1000,"window":"1h","per":["ip"],"count":"cost","reserve":1}]}}]}`), rules.Options{Version: 1}))),
		Identifier: caller.New(caller.Options{}), Clock: time.Now, Logger: logger, MACs: mac.Fixed("dev", []byte("secret")),
	}
	authorize := func() map[string]any {
		t.Helper()
		var p events.APIGatewayCustomAuthorizerResponse
		event := storetest.Must(samples.Files.ReadFile("rest-authorizer-anonymous.json"))
		if err := json.Unmarshal(storetest.Must(lambdahttp.NewAuthorizer(e).Invoke(t.Context(), event)), &p); err != nil {
			t.Fatal(err)
		}
		return p.Context
	}
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(storetest.Must(samples.Files.ReadFile("rest-proxy-anonymous.json")), &event); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a request that reports nothing charges nothing
		event.RequestContext.Authorizer = authorize()
	}
	node := exec.CommandContext(t.Context(), "node", filepath.Join(folder, "main.mjs"))
	node.Stdin, node.Stderr = bytes.NewReader(storetest.Must(json.Marshal(event))), t.Output()
	reported, err := node.Output()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := lambdahttp.NewLog(e, nil).Invoke(t.Context(), reported)
	if err != nil || string(answer) != `{"charged":true}` {
		t.Errorf("log: got %s and %v for %s, want the report charged", answer, err, reported)
	}
	if got := authorize(); got["weir"] != "refused" || got[contract.KeyPolicy] != "input" {
		t.Errorf("after the report: got %v, want a refusal by input", got)
	}
}
