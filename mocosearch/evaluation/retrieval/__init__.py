"""What a search shows: the gallery ranked for every photo, exactly and through an index, and scored."""
