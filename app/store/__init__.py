"""The database: one file, one owner, one writer. Knows rows, and nothing of their sense."""
