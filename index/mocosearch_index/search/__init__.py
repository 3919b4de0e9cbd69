"""The search structure over the vectors: a cache that can always be made again. The one room that knows FAISS."""
