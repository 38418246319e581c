"""Messages: their roles, their order, their forms, and how much of them reaches the model."""
