// A language model as a server: it answers with as many words as the request asks for, and prints its port.
import { createServer } from 'node:http';

const server = createServer(async (request, response) => {
  let body = '';
  for await (const part of request) body += part;
  const { stream, max_tokens: words } = JSON.parse(body);
  const usage = { prompt_tokens: 12, completion_tokens: words, total_tokens: 12 + words };
  if (!stream) {
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify({ choices: [{ message: { content: 'word '.repeat(words) } }], usage }));
    return;
  }
  response.setHeader('Content-Type', 'text/event-stream');
  for (let i = 0; i < words; i++) {
    response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'word ' } }], usage: null })}\n\n`);
  }
  response.write(`data: ${JSON.stringify({ choices: [], usage })}\n\n`);
  response.end('data: [DONE]\n\n');
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
