"""One file a command, loaded when it is called, so that `--help` answers at once."""
