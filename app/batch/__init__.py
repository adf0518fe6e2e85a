"""Runs batches: one run (`run_case`), what a batch asks (`plan`), and all of it (`batches`)."""
