"""The HTTP interface for programs, and the files of the page."""
