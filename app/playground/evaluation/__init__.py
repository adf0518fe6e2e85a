"""Definitions and evaluation of batches: pure, no clock, no database."""
