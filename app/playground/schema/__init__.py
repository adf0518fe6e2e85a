"""JSON and JSON Schema: checks of a call's arguments and of tools, forms, samples. Pure."""
