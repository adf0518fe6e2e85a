"""JSON and JSON Schema: what a call's arguments are worth, and what a tool may be. Pure."""
