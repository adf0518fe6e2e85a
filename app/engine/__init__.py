"""What happens: the hub checks and saves, the driver performs, the client asks the model."""
