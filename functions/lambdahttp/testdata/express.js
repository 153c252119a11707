// Writes for each event, one a line, the name of the route that serves it in Express, or an empty line.
// With the argument serve, it serves the routes on a port, which it prints.
const base = process.argv[2];
const express = require(base + "/express");
const handler = require(base + "/serverless-http");

const app = express();
for (const [name, path] of Object.entries({
  admin: "/admin", item: "/items/:id", part: "/items/:id/parts/:part", files: "/files/*rest", report: "/:tenant/report", health: "/health",
})) {
  app.get(path, (request, response) => response.end(name));
}
app.use((request, response) => response.status(404).end());
app.use((error, request, response, next) => response.status(400).end());

if (process.argv[3] === "serve") {
  const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
} else {
  const invoke = handler(app);
  (async () => {
    for await (const line of require("readline").createInterface({ input: process.stdin })) {
      const answer = await invoke(JSON.parse(line), {});
      process.stdout.write((answer.statusCode === 200 ? answer.body : "") + "\n");
    }
  })();
}
