"""What answers a call. One file a kind, one line in `table`."""
