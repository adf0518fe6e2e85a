"""One module per command, imported when it is called, so that `--help` answers at once."""
