"""What the parts need from the world, as small Protocols. Only the model is below."""
