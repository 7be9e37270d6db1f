"""Named maxima of group coordination that Kafka has no configuration for."""

# Members that were given an id (KIP-394) and have not come back with it, per group. Each costs
# some hundred bytes until its session ends; a client that loops on the first JoinGroup must not
# fill the memory.
PENDING_MEMBERS_MAX = 10_000

# Milliseconds that a new member may wait in JoinGroup. It has no id to send heartbeats with,
# so a client that gave up would otherwise stay a member of a long rebalance. As in Kafka.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
