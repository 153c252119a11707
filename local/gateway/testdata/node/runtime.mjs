// Runs a Node.js function with the Runtime API of Lambda, as in the developer guide ("Building a custom
// runtime for AWS Lambda"). The official client, aws-lambda-ric, compiles C++ when it is installed.
const { handler } = await import(process.argv[2]);
const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;
const post = (id, kind, body) => fetch(`${api}/${id}/${kind}`, { method: 'POST', body: JSON.stringify(body) });

for (;;) {
  const next = await fetch(`${api}/next`);
  const id = next.headers.get('lambda-runtime-aws-request-id');
  try {
    await post(id, 'response', await handler(await next.json()));
  } catch (error) {
    await post(id, 'error', { errorType: error.name, errorMessage: error.message });
  }
}
