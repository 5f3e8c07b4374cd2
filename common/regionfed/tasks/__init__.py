"""What is asked of a model, and how an answer is scored."""
