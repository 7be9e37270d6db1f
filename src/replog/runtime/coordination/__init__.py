"""The coordinator: a tree of versioned nodes that all brokers of a cluster share."""
