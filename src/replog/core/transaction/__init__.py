"""Rules of transactions: who may write under a transactional id, and what a log shows of them."""
