"""Run directories on disk: ledger, logs, samples, batches."""
