"""Who may ask for what: the door of the server."""
