// What the official packages of npm make of answers. The argument is a file of cases: two bodies of
// a protocol each, which have to be one answer. Prints the names of those that are not.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { isDeepStrictEqual } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

let body, type;
const server = createServer((request, response) => {
  request.resume();
  request.on("end", () => response.writeHead(200, { "content-type": type }).end(body));
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const baseURL = `http://127.0.0.1:${server.address().port}`;
const openai = new OpenAI({ apiKey: "k", baseURL, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "k", baseURL, maxRetries: 0 });
const google = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: baseURL } });
const chat = { model: "m", messages: [{ role: "user", content: "Hi." }] };

const read = {
  anthropic: (streamed) =>
    streamed
      ? anthropic.messages.stream({ ...chat, max_tokens: 9 }).finalMessage()
      : anthropic.messages.create({ ...chat, max_tokens: 9 }),
  openai_chat: (streamed) =>
    streamed
      ? openai.chat.completions.stream(chat).finalChatCompletion()
      : openai.chat.completions.create(chat),
  openai_responses: (streamed) =>
    streamed
      ? openai.responses.stream({ model: "m", input: "Hi." }).finalResponse()
      : openai.responses.create({ model: "m", input: "Hi." }),
  gemini: async (streamed) => {
    const talk = google.chats.create({ model: "m" });
    if (streamed) for await (const _ of await talk.sendMessageStream({ message: "Hi." }));
    else await talk.sendMessage({ message: "Hi." });
    return talk.getHistory(true).slice(1).flatMap((content) => content.parts);
  },
};

async function answer({ protocol, streamed }, data) {
  [body, type] = [data, streamed ? "text/event-stream" : "application/json"];
  return JSON.parse(JSON.stringify(await read[protocol](streamed)));
}

for (const one of JSON.parse(readFileSync(process.argv[2]))) {
  try {
    const [edited, plain] = [await answer(one, one.edited), await answer(one, one.plain)];
    if (!isDeepStrictEqual(edited, plain)) console.log(one.name);
  } catch (error) {
    console.log(`${one.name}: ${error}`);
  }
}
process.exit(0);
