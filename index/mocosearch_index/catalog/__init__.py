"""The catalog: in SQLite one row a photo, and one that says what the library is. Truth, with the vectors."""
