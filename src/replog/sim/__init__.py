"""The simulated world: production nodes in virtual time, with seeded faults and a checker after
every step."""
