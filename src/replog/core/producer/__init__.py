"""What a partition remembers of idempotent producers (KIP-98, KIP-360)."""
