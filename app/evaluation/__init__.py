"""What a batch is, and what its results mean: pure, no clock, no database."""
