"""What answers a call: one module or package a kind of tool, one line in `run_with_limits`."""
