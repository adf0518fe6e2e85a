"""OpenAI Chat Completions: the client's end (encode, decode) and the server's (request, server)."""
