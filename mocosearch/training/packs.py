"""The packed copies of a folder's photos: made on the first rank, then opened on each, and seen alike by all."""

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import torch

from mocosearch.devices import best_device
from mocosearch.distributed import mean_over_ranks, on_first_rank
from mocosearch.errors import TrainingStopped
from mocosearch.images.pack import Pack, UnpackedPhoto
from mocosearch.images.pack_cache import drop_unused_packs
from mocosearch.images.packed import PackedPhoto
from mocosearch.images.view_parameters import packed_short_side
from mocosearch.recipes import ViewsSection
from mocosearch.user_folders import cache_folder
from mocosearch_index.paths import shown
from mocosearch_index.records import FileStamp

CountCallback = Callable[[int, int], None]  # (done, total)


def default_pack_folder(root: Path, views: ViewsSection) -> Path:
    """Return the place in the user's cache for the downsized photos of `root`, shared by all that cut as small."""
    name = blake2b(os.fsencode(root.resolve()), digest_size=8).hexdigest()
    return _packs() / f"{name}-{packed_short_side(views)}"


def _packs() -> Path:
    return cache_folder() / "packs"


def pack_photos(
    root: Path, stamps: Sequence[FileStamp], views: ViewsSection, pack_folder: Path, on_photo: CountCallback
) -> None:
    """Pack the photos of `root` as large as `views` need them."""
    pack = Pack(pack_folder, short_side=packed_short_side(views))
    pack.update(root, stamps, progress=lambda done: on_photo(done, len(stamps)))
    if pack_folder.parent == _packs():
        drop_unused_packs(_packs())
    pack.close()


def open_packed(
    root: Path, stamps: Sequence[FileStamp], views: ViewsSection, pack_folder: Path
) -> tuple[Pack, list[PackedPhoto], list[UnpackedPhoto]]:
    """Open the pack on every rank; on another node than the first one's it may first have to be made.

    Raises TrainingStopped, on all ranks, if they do not see the same photos.
    """
    pack = Pack(pack_folder, short_side=packed_short_side(views))
    packed, skipped = pack.update(root, stamps)
    seen = blake2b(repr([(photo.stamp, photo.height, photo.width) for photo in packed]).encode()).digest()
    differs = float(on_first_rank(lambda: seen) != seen)
    if mean_over_ranks([torch.tensor(differs, device=best_device())]) != [0.0]:
        raise TrainingStopped(
            f"The devices do not see the same photos in {shown(root)}: start again when nothing changes there any more."
        )
    return pack, packed, skipped
