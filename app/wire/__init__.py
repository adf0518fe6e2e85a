"""The providers' protocols as pure functions: requests to bytes, bytes to events."""
