"""Training: the loop over any method, and the run around it."""
