"""The tabs for looking after a library, as HTML."""
