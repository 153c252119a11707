// Answers with as many bytes as the body of the event asks for.
export const handler = async (event) => ({ statusCode: 200, body: "x".repeat(JSON.parse(event.body).answer) });
