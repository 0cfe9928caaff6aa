"""The ledger: one durable record per job attempt, and what can be learnt from many of them."""
