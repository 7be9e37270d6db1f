"""The vocabulary: ids, epochs, records of cluster state, messages, inputs, outputs, errors."""
