// Writes for each event, one a line, the name of the route that a server finds which parses the path with the class URL
// and decodes it, or an empty line.
const lines = require("readline").createInterface({ input: process.stdin });
const routes = Object.entries({
  admin: /^\/admin$/, item: /^\/items\/[^/]+$/, part: /^\/items\/[^/]+\/parts\/[^/]+$/, files: /^\/files\/.+$/, report: /^\/[^/]+\/report$/, health: /^\/health$/,
});

const route = (event) => {
  try {
    const path = decodeURI(new URL("https://api.example.com" + (event.rawPath ?? event.path)).pathname);
    return routes.find(([, pattern]) => pattern.test(path))?.[0] ?? "";
  } catch {
    return "";
  }
};

(async () => {
  for await (const line of lines) {
    process.stdout.write(route(JSON.parse(line)) + "\n");
  }
})();
