"""The ground floor: facts, their fold and the decisions taken from it. Standard library only."""
