// A function that streams its answer. Depending on the event, it waits between the parts, or fails.
export const handler = awslambda.streamifyResponse(async (event, stream) => {
  stream = awslambda.HttpResponseStream.from(stream, { statusCode: 201, headers: { "Content-Type": "text/plain" } });
  stream.write("first ");
  await fetch(event.body);
  if (event.rawPath === "/error") {
    throw new TypeError("no such order");
  }
  stream.write("second");
  stream.end();
});
