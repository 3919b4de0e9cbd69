"""Keeping an index true: what has changed in its folder, what is known by its content, embedding the rest."""
