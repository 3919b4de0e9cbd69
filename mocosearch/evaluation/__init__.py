"""Is the encoder any good? Figures over frozen vectors: kNN, retrieval, linear probe, label-free health."""
