"""The recipes of docs/recipes.md, each followed on a copy of the program."""
