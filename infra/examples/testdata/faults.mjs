// A function that fails as its event says. An event that is no HTTP request is its answer.
export async function handler(event) {
  const path = event.rawPath;
  if (!path) {
    return event;
  }
  switch (path) {
    case "/crash":
      process.exit(7);
    case "/error":
      throw new TypeError("no such order");
    case "/wait":
      await fetch(event.body);
  }
  return { statusCode: 200, headers: { "Content-Type": "text/plain" }, body: "answered" };
}
