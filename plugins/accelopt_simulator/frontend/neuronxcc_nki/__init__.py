"""The `neuronxcc.nki` dialect: the modules a kernel imports, as seen inside the tracing worker."""
