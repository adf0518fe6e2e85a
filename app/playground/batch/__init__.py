"""Runs batches: one run (`run_case`), planned requests (`plan`), whole batches (`batches`)."""
