"""Ollama chat: client end (encode, decode) and server end (request, server)."""

from playground.protocols import Assessment, ParameterWords, ProtocolFacts, words_of

FACTS = ProtocolFacts(
    "Ollama",
    "/ollama",
    "/api/chat",
    ParameterWords(
        same={
            "max_tokens": "num_predict",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "top_k": "top_k",
            "seed": "seed",
            "presence_penalty": "presence_penalty",
            "frequency_penalty": "frequency_penalty",
        },
        own=words_of("format keep_alive logprobs options think top_logprobs"),
        inner="options",
        inside=words_of(
            """frequency_penalty main_gpu min_p mirostat mirostat_eta mirostat_tau num_batch
            num_ctx num_gpu num_keep num_predict num_thread penalize_newline presence_penalty
            repeat_last_n repeat_penalty seed tfs_z top_k typical_p use_mmap"""
        ),
        thinking="think",
        off=False,
        free=True,
    ),
    forced=Assessment(
        "no", "Ollama has no tool choice. Only this tool is sent, but the model may not call it."
    ),
    images=Assessment("yes", "Images are sent next to the result, for models that accept images."),
    strict=Assessment("no", "Ollama has no strict mode."),
    tool_tokens=12,
)
