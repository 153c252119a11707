// Calls a tool until the server refuses, and prints what the error of the SDK says.
const [modules, url] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(modules + "/@modelcontextprotocol/client/dist/index.mjs");
const client = new Client({ name: "client", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url + "/mcp")));
let done = 0;
try {
  for (; done < 9; done++) {
    await client.callTool({ name: "render", arguments: {} });
  }
} catch (e) {
  console.log(done, e.message);
}
await client.close();
