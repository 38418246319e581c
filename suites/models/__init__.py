"""The list of models, and each model by itself."""
