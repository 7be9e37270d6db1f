"""One broker as a step function: inputs in, outputs out, nothing awaited."""
