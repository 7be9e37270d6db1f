"""The real world for a node: sockets, files, threads, clocks and the coordinator's backends."""
