"""Looking after the library: work that goes on behind the page, and what the tabs tell of it."""
