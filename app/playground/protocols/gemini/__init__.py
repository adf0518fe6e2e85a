"""Gemini generateContent: client end (encode, decode) and server end (request, server)."""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts, words_of

FACTS = ProtocolFacts(
    "Gemini",
    "/gemini",
    r"/(?P<collection>models|tunedModels)/(?P<model>[^:]+):(?P<method>(?:streamG|g)enerateContent)",
    ParameterWords(
        same={
            "max_tokens": "maxOutputTokens",
            "temperature": "temperature",
            "top_p": "topP",
            "stop": "stopSequences",
            "top_k": "topK",
            "seed": "seed",
            "presence_penalty": "presencePenalty",
            "frequency_penalty": "frequencyPenalty",
        },
        own=words_of("cachedContent generationConfig labels safetySettings"),
        inner="generationConfig",
        inside=words_of(
            """audioTimestamp candidateCount enableEnhancedCivicAnswers frequencyPenalty
            imageConfig logprobs maxOutputTokens mediaResolution presencePenalty
            responseJsonSchema responseLogprobs responseMimeType responseModalities responseSchema
            routingConfig seed speechConfig stopSequences thinkingConfig topK topP"""
        ),
        thinking="thinkingConfig",
        off={"thinkingBudget": 0},
        free={"thinkingBudget": -1},
        members=words_of("thinkingBudget thinkingLevel includeThoughts"),
        budgeted=True,
    ),
    forced=Assessment("yes", "Mode ANY with this one name allowed."),
    images=Assessment(
        "partly",
        "Gemini 3 and later accept images in results. For other models, the images follow.",
    ),
    strict=Assessment("partly", "strict was sent as mode VALIDATED, which applies to all tools."),
    key_name="GEMINI_API_KEY",
)
