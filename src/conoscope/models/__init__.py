"""A family of self-attention classifiers, as Hugging Face models."""
