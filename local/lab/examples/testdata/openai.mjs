// Asks an API for completions until it refuses, and prints what the error of the SDK says.
const [modules, url] = process.argv.slice(2);
const { default: OpenAI } = await import(modules + "/openai/index.mjs");
const client = new OpenAI({ apiKey: "key", baseURL: url + "/v1", maxRetries: 0 });
const chat = { model: "m", messages: [{ role: "user", content: "hi" }] };
try {
  console.log((await client.chat.completions.create(chat)).choices[0].message.content);
  await client.chat.completions.create({ ...chat, stream: true });
} catch (e) {
  console.log(e.constructor.name, e.status, e.type, e.code, e.message);
}
