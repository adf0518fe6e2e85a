"""The database: one file, one owner, one writer. Handles rows without interpreting them."""
