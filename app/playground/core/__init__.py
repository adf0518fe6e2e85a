"""The lowest floor: events, their fold, and the decisions based on it. Standard library only."""
