"""Numbers for Prometheus, computed from the ledger and the spool."""
