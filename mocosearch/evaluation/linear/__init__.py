"""The fast linear probe: many classifiers on frozen vectors, trained at once."""
