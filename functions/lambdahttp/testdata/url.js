// Writes for each event, one a line, the name of the route that a server finds which parses the path with the class URL
// and decodes it, or an empty line. With the argument serve, it serves the routes on a port, which it prints.
const routes = Object.entries({
  admin: /^\/admin$/, item: /^\/items\/[^/]+$/, part: /^\/items\/[^/]+\/parts\/[^/]+$/, files: /^\/files\/.+$/, report: /^\/[^/]+\/report$/, health: /^\/health$/,
});

const route = (url, base) => {
  try {
    const path = decodeURI(new URL(url, base).pathname);
    return routes.find(([, pattern]) => pattern.test(path))?.[0] ?? "";
  } catch {
    return "";
  }
};

if (process.argv[2] === "serve") {
  const server = require("http").createServer((request, response) => {
    const name = route(request.url, "https://api.example.com");
    response.writeHead(name === "" ? 404 : 200).end(name);
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
} else {
  (async () => {
    for await (const line of require("readline").createInterface({ input: process.stdin })) {
      const event = JSON.parse(line);
      process.stdout.write(route("https://api.example.com" + (event.rawPath ?? event.path)) + "\n");
    }
  })();
}
