"""Messages: their roles, their order, their forms, and what reaches the model of them."""
