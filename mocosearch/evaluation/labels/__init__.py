"""Photos and what is known of them: classes, parts and pairs, from folders or CSV files."""
