"""What page and HTTP interface show of a library, without a word of HTML or HTTP."""
