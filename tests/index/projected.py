"""Photos for tests of projections, and plain computations to compare with."""

from dataclasses import replace

import numpy as np
from generated_photos import DIM, batch, vector

from mocosearch_index.image_index import ImageIndex
from mocosearch_index.records import EmbeddedPhoto, Float32, SearchSettings

QUERIES = np.stack([vector(b"query %d" % number) for number in range(5)])


def plain_projection(stored: Float32, vectors: Float32, dim: int, whiten: bool) -> Float32:
    """Project by an SVD; the signs of its axes are other ones, which no cosine minds."""
    mean = stored.mean(axis=0)
    _, deviations, axes = np.linalg.svd((stored - mean).astype(np.float64), full_matrices=False)
    projected = (vectors - mean) @ axes[:dim].T
    if whiten:
        variances = deviations**2 / len(stored)
        projected /= np.sqrt(variances[:dim] + 0.2 * variances[0])
    return (projected / np.linalg.norm(projected, axis=1, keepdims=True)).astype(np.float32)


def set_search(index: ImageIndex, wanted: SearchSettings) -> None:
    index.set_settings(replace(index.settings, search=wanted))
    index.save_search_file()


def uneven(number: int) -> list[EmbeddedPhoto]:
    """Photos whose vectors vary in some directions much more than in others, about a mean far from zero."""
    scale = np.linspace(2, 0.1, DIM)
    photos = batch(number, 1200)
    return [replace(one, vector=(one.vector * scale + 0.3).astype(np.float32)) for one in photos]


def crowded(numbers: np.ndarray) -> Float32:
    """Unit vectors about one direction that they share."""
    rows = 0.1 * numbers / np.sqrt(numbers.shape[1]) + np.eye(numbers.shape[1])[0]
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
