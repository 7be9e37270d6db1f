"""The thinking: replica, controller, group and producer rules, over numbers. No bytes, no I/O."""
