// Forwards the notices in log lines to an event bus. If a call fails, the invocation fails and
// Lambda repeats it up to twice. A notice can therefore arrive twice, with the same id.
const { EventBridgeClient, PutEventsCommand } = require("@aws-sdk/client-eventbridge");
const { gunzipSync } = require("node:zlib");

const client = new EventBridgeClient({});
const most = 10; // events per call

exports.handler = async (event) => {
  const data = JSON.parse(gunzipSync(Buffer.from(event.awslogs.data, "base64")));
  if (data.messageType === "CONTROL_MESSAGE") return; // CloudWatch Logs sends this message to test the destination
  const notices = data.logEvents.map((line) => JSON.parse(line.message)).filter((n) => n.weir === "notice");
  for (let i = 0; i < notices.length; i += most) {
    const Entries = notices.slice(i, i + most).map((n) => ({
      EventBusName: process.env.BUS, Source: "weir", DetailType: "Weir Notice", Time: new Date(n.time), Detail: JSON.stringify(n),
    }));
    const answer = await client.send(new PutEventsCommand({ Entries }));
    if (answer.FailedEntryCount > 0) {
      throw new Error(`events rejected: ${answer.FailedEntryCount} of ${Entries.length}`);
    }
  }
};
