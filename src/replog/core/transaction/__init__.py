"""Rules of transactions. So far only who may write under a transactional id."""
