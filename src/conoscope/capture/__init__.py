"""From a model and a batch to what each layer computed."""
