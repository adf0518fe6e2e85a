"""A model of words and patterns: which calls a prompt asks for, their arguments, the answer."""
