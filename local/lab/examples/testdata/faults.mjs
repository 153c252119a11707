// A function that fails in the way that its event requests. It returns an event that is not an HTTP
// request.
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
