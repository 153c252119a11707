// Writes for each event, one a line, the name of the route that serves it in Express, or an empty line.
const base = process.argv[2];
const express = require(base + "/express");
const handler = require(base + "/serverless-http");
const lines = require("readline").createInterface({ input: process.stdin });

const app = express();
for (const [name, path] of Object.entries({
  admin: "/admin", item: "/items/:id", part: "/items/:id/parts/:part", files: "/files/*rest", report: "/:tenant/report", health: "/health",
})) {
  app.get(path, (request, response) => response.end(name));
}
app.use((request, response) => response.status(404).end());
app.use((error, request, response, next) => response.status(400).end());

const serve = handler(app);
(async () => {
  for await (const line of lines) {
    const answer = await serve(JSON.parse(line), {});
    process.stdout.write((answer.statusCode === 200 ? answer.body : "") + "\n");
  }
})();
