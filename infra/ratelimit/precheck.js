// Checks a REST API before CloudFormation adds gateway responses to it. It reports a missing API,
// and responses of the API's owner: CloudFormation would reject or replace those.
const { APIGatewayClient, GetGatewayResponsesCommand, GetRestApiCommand } = require("@aws-sdk/client-api-gateway");
const timers = require("node:timers/promises");

const client = new APIGatewayClient({ maxAttempts: 3, requestHandler: { connectionTimeout: 1000, requestTimeout: 3000, throwOnRequestTimeout: true } });

// read sends a command. IAM applies a new role's policy some seconds late, so read repeats a denied command for a minute.
const read = async (command, tries = 20) => {
  try {
    return await client.send(command);
  } catch (e) {
    if (tries === 1 || !["AccessDeniedException", "UnrecognizedClientException"].includes(e.name)) throw e;
  }
  await timers.setTimeout(3000);
  return read(command, tries - 1);
};

// inspect returns why the limits cannot be added to the API, or the attributes of the resource.
const inspect = async (event) => {
  if (event.RequestType === "Delete") return {};
  const restApiId = event.ResourceProperties.RestApiId;
  let api;
  try {
    api = await read(new GetRestApiCommand({ restApiId }));
  } catch (e) {
    if (e.name === "NotFoundException") return { Reason: `RestApiId: no REST API ${restApiId} in this account and region; pass the id of a REST API (HTTP APIs have other ids)` };
    throw e;
  }
  const Reason = await conflict(event, restApiId);
  return Reason ? { Reason } : { Data: { Name: api.name } };
};

// conflict returns why the limits' gateway responses cannot be added to the API, or undefined.
const conflict = async ({ RequestType, ResourceProperties: now, OldResourceProperties: before }, restApiId) => {
  const sameApi = RequestType === "Update" && before.RestApiId === restApiId;
  const types = Object.keys(now.Responses).filter((type) => !sameApi || !(type in before.Responses));
  if (types.length === 0) return;
  const { items } = await read(new GetGatewayResponsesCommand({ restApiId }));
  const custom = items.filter((r) => !r.defaultResponse);
  // A rollback sets the properties back to the previous API, which still has this stack's own
  // responses.
  const own = custom.some((r) => r.responseType === "ACCESS_DENIED" && r.responseTemplates?.["application/json"] === now.Responses.ACCESS_DENIED);
  if (RequestType === "Update" && own) return;
  const taken = custom.map((r) => r.responseType).filter((type) => types.includes(type));
  if (taken.length === 0) return;
  return `RestApiId: the API ${restApiId} already has gateway responses of the types ${taken.sort().join(", ")}; an API has one response of each type, so remove them from the API (aws apigateway delete-gateway-response), or limit another API`;
};

// unreadable returns the error as a reason. CloudFormation needs an answer; without one it waits
// for its own timeout.
const unreadable = (event) => (e) => ({ Reason: `RestApiId: the API ${event.ResourceProperties.RestApiId} cannot be read (${e.name}: ${e.message}); deploy again` });

exports.handler = async (event, context) => {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, context.getRemainingTimeInMillis() - 5000, { Reason: "RestApiId: API Gateway did not answer in time; deploy again" });
  });
  const { Reason, Data } = await Promise.race([inspect(event).catch(unreadable(event)), late]);
  clearTimeout(timer);
  const { StackId, RequestId, LogicalResourceId } = event;
  const PhysicalResourceId = event.RequestType === "Delete" ? event.PhysicalResourceId : `precheck-${event.ResourceProperties.RestApiId}`;
  const body = JSON.stringify({ Status: Reason ? "FAILED" : "SUCCESS", Reason: Reason?.slice(0, 1000), PhysicalResourceId, StackId, RequestId, LogicalResourceId, Data });
  const answer = await fetch(event.ResponseURL, { method: "PUT", headers: { "content-type": "" }, body, signal: AbortSignal.timeout(4000) });
  if (!answer.ok) throw new Error(`CloudFormation rejected the answer: status ${answer.status}`); // after an error, Lambda repeats the invocation
};
