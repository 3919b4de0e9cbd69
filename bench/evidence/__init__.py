"""Does training on one's own images pay? Runs, scores and tables behind docs/evidence.md."""
