// The package `ai` against the simulator: VENDOR and the simulator's address are its arguments.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [vendor, url] = process.argv.slice(2);
const apiKey = "k";
const openai = createOpenAI({ baseURL: `${url}/openai/v1`, apiKey });
const models = {
  openai: () => openai.chat("m"),
  responses: () => openai.responses("m"),
  anthropic: () => createAnthropic({ baseURL: `${url}/anthropic/v1`, apiKey })("claude-sonnet-4-5"),
  google: () => createGoogleGenerativeAI({ baseURL: `${url}/gemini/v1beta`, apiKey })("gemini-2.5-pro"),
};
const model = models[vendor]();
const tools = {
  calculator: tool({
    description: "Evaluate an arithmetic expression.",
    inputSchema: z.object({ expression: z.string() }),
    execute: async () => "391",
  }),
  get_weather: tool({
    description: "Current weather in a city.",
    inputSchema: z.object({ city: z.string() }),
    execute: async () => ({ temperature: 18, unit: "celsius", condition: "sunny" }),
  }),
};

const run = streamText({
  model, tools, stopWhen: stepCountIs(4),
  prompt: "What is 17*23, and the weather in Paris?",
  onError: ({ error }) => { throw error; },
});
for await (const _ of run.fullStream);
const calls = (await run.steps).flatMap((step) => step.toolCalls.map((call) => call.toolName));

const forced = await generateText({
  model, tools, prompt: "Hello", toolChoice: { type: "tool", toolName: "get_weather" },
});
const shaped = await generateObject({
  model, prompt: "What is the weather in Paris?",
  schema: z.object({ city: z.string(), sky: z.enum(["cloudy", "sunny"]), days: z.array(z.number()) }),
});
console.log(JSON.stringify({
  calls, text: await run.text, forced: forced.toolCalls.map((call) => call.toolName), object: shaped.object,
}));
