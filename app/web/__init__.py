"""The pages and the stream: what a browser or a script sees of the engine."""
