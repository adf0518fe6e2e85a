"""Runs sessions: `sessions` checks and saves, `runner` performs, `responses` asks the model."""
