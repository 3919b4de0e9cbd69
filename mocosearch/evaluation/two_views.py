"""Two augmented views of some photos, as contrastive training makes them: does an encoder see the same in both?"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mocosearch import randomness
from mocosearch.embed import Shares, cores_of_torch, lanes
from mocosearch.encoders import Encoder
from mocosearch.errors import NoPhotos
from mocosearch.evaluation.health import TwoViews
from mocosearch.images.decode import Undecodable
from mocosearch.images.decode_pool import DecodePool
from mocosearch.images.packed import Pixels
from mocosearch.images.view_parameters import draw_parameters, packed_short_side
from mocosearch.images.views import as_pixels, make_view
from mocosearch.recipes import ViewsSection, load_recipe

PHOTOS = 1000  # of a large collection: the share of them that is stable is then known to about 1 point
_RECIPE = "moco_v2"  # its augmentation is that of MoCo v2
_EPOCH = 0


def embed_two_views(
    paths: Sequence[Path],
    encoder: Encoder,
    progress: Callable[[int, int], None] | None = None,
    *,
    seed: int = 0,
    most: int = PHOTOS,
) -> TwoViews:
    """Embed two views of at most `most` of the photos, drawn by `seed`, at the crop of the encoder.

    For other encoders photos and views are the same, in another size (exactly so up to a crop of 224 pixels). What
    cannot be read is left out; NoPhotos when that is all. `progress` is told how many of how many are done.
    """
    views = views_at(encoder.preprocessing.crop)
    short_side = max(packed_short_side(views), packed_short_side(load_recipe(_RECIPE).views))
    chosen = np.sort(randomness.permutation(seed, size=len(paths))[:most])
    shares = Shares.of(encoder.device, views.crop, cores_of_torch(), len(chosen))
    parts = [chosen[start : start + shares.batch] for start in range(0, len(chosen), shares.batch)]
    embedded: list[TwoViews] = []
    with (
        DecodePool(shares.decoders) as pool,
        ThreadPoolExecutor(shares.decoders) as readers,
        lanes(shares.lanes, shares.cores_a_lane) as threads,
    ):

        def read(place: int) -> Pixels | None:
            try:
                return np.asarray(pool.decode(paths[place], short_side).image)
            except Undecodable:
                return None

        def embed(part: NDArray[np.int64]) -> TwoViews | None:
            images = {int(place): image for place, image in zip(part, readers.map(read, part), strict=True)}
            readable = {place: image for place, image in images.items() if image is not None}
            return _embed(readable, views, seed, encoder) if readable else None

        done = 0
        for part, of_part in zip(parts, threads.map(embed, parts), strict=True):
            embedded += [of_part] if of_part else []
            done += len(part)
            if progress:
                progress(done, len(chosen))
    if not embedded:
        raise NoPhotos("None of the photos can be read any more: check the disk, or connect the drive that holds them.")
    return TwoViews(
        np.concatenate([part.places for part in embedded]),
        np.concatenate([part.first for part in embedded]),
        np.concatenate([part.second for part in embedded]),
    )


def in_common(of_encoders: Sequence[TwoViews]) -> list[TwoViews]:
    """Return the views of those photos that all have: one may have been too slow to read just once.

    Raises NoPhotos when nothing is left.
    """
    places = reduce(np.intersect1d, [views.places for views in of_encoders])
    if not len(places):
        raise NoPhotos("No photo could be read for every encoder: run the command again when the disk is less busy.")
    return [views.only(places) for views in of_encoders]


def views_at(crop: int) -> ViewsSection:
    """Return the augmentation of MoCo v2 for views of `crop` pixels a side; the blur is as wide for the picture."""
    views = load_recipe(_RECIPE).views
    low, high = (sigma * crop / views.crop for sigma in views.blur.sigma)
    return views.model_copy(update={"crop": crop, "blur": views.blur.model_copy(update={"sigma": (low, high)})})


def _embed(images: Mapping[int, Pixels], views: ViewsSection, seed: int, encoder: Encoder) -> TwoViews:
    """Embed two views of each of the images (h, w, 3), which are named by their places."""
    places, pixels = np.array(list(images)), list(images.values())
    sizes = np.array([image.shape[:2] for image in pixels])
    drawn = [draw_parameters(views, sizes, seed=seed, epoch=_EPOCH, ids=places, view=view) for view in range(2)]
    pair = [as_pixels(make_view(pixels, parameters, views, encoder.device), views) for parameters in drawn]
    return TwoViews(places, *(encoder.embed(view) for view in pair))
