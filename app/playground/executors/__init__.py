"""Executors of calls: one module or package per kind of tool, one line in `run_with_limits`."""
