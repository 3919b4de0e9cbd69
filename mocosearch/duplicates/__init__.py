"""Identical photos and near-duplicates of a library: groups, the one worth keeping, how sure one can be."""
