"""Pictures of photos as they are handed out: small ones, made once, and originals."""
