"""mocosearch: search an image collection by picture, with an encoder learned from that very collection."""

__version__ = "0.1.0"
