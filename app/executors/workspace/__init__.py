"""The built-in tools that work in a scratch folder of the session."""
