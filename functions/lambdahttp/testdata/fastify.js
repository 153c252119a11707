// Serves the routes in Fastify on a port, which it prints.
const app = require(process.argv[2] + "/fastify")();
for (const [name, path] of Object.entries({
  admin: "/admin", item: "/items/:id", part: "/items/:id/parts/:part", files: "/files/*", report: "/:tenant/report", health: "/health",
})) {
  app.get(path, async () => name);
}
app.listen({ port: 0, host: "127.0.0.1" }).then(() => console.log(app.server.address().port));
