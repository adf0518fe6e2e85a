// A streamed chat by Google's own package: node genai.mjs MODEL SIMULATOR. Prints what came as JSON.
import { GoogleGenAI } from "@google/genai";

const [model, simulator] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: `${simulator}/gemini` } });
const parameter = (name) => ({
  type: "object",
  properties: { [name]: { type: "string" } },
  required: [name],
});
const functionDeclarations = [
  {
    name: "calculator",
    description: "Evaluate an arithmetic expression.",
    parametersJsonSchema: parameter("expression"),
  },
  {
    name: "get_weather",
    description: "Current weather in a city.",
    parametersJsonSchema: parameter("city"),
  },
];
const results = {
  calculator: "391",
  get_weather: '{"temperature": 18, "unit": "celsius", "condition": "sunny"}',
};
const chat = ai.chats.create({ model, config: { tools: [{ functionDeclarations }] } });

async function send(message) {
  const parts = [];
  for await (const chunk of await chat.sendMessageStream({ message })) {
    parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []));
  }
  const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall);
  return { calls, text: parts.map((part) => part.text ?? "").join("") };
}

const called = [];
let answer = await send("What is 17*23, and the weather in Paris?");
for (let turn = 0; turn < 4 && answer.calls.length; turn += 1) {
  called.push(...answer.calls.map((call) => call.name));
  answer = await send(
    answer.calls.map(({ id, name }) => ({
      functionResponse: { id, name, response: { result: results[name] } },
    })),
  );
}
const following = (await chat.sendMessage({ message: "Thanks, bye." })).text;
console.log(JSON.stringify({ calls: called, text: answer.text, following }));
