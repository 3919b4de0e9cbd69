"""A recipe made to fit: the photos and how many there are, the devices, and the encoder that it continues from."""

from collections.abc import Sequence
from statistics import median_high

import torch

from mocosearch.encoders import Encoder, new_network
from mocosearch.errors import BadDevices, BadRecipe, NoPhotos
from mocosearch.images.packed import PackedPhoto
from mocosearch.nets import backbone_names
from mocosearch.recipes import BackboneSection, Recipe

FEWEST_PHOTOS = 8
MOST_KEYS = 65536
FEWEST_PER_RANK = 2
SMALLEST_CROP = 32  # pixels, of `views.fit_photos`
FEWEST_PER_GROUP = 8  # images whose statistics batch norm can live with


def fit_to_photos(recipe: Recipe, photos: Sequence[PackedPhoto]) -> tuple[Recipe, list[str]]:
    """Return the recipe with crops of at most its `fit_photos` of the photos' short side, and what was changed.

    A larger crop of a small photo is mostly enlarged pixels, which take the time of seeing more photos. The encoder's
    input shrinks with the crop, but not below the photos. Half of these are at least as large as the one that decides.
    """
    views, seen = recipe.views, recipe.encoder_input
    short_side = median_high(min(photo.height, photo.width) for photo in photos) if photos else 0
    largest = views.fit_photos * short_side
    crop = max(SMALLEST_CROP, int(largest) // 8 * 8)
    if not views.fit_photos or largest >= views.crop or crop >= views.crop:
        return recipe, []
    scale = crop / views.crop
    smaller = {
        name: min(side, max(round(scale * side), short_side))
        for name, side in (("resize", seen.resize), ("crop", seen.crop))
    }
    fitted = {
        "views": views.model_copy(update={"crop": crop}),
        "encoder_input": seen.model_copy(update=smaller),
    }
    notice = f"crops of {crop} pixels instead of {views.crop}: the photos have {short_side} (views.fit_photos)"
    return recipe.model_copy(update=fitted), [notice]


def fit_to_collection(recipe: Recipe, photos: int, *, ranks: int = 1) -> tuple[Recipe, list[str]]:
    """Return the recipe with batch, batch-norm groups and dictionary that `photos` images allow, and what was changed.

    The batch, over all ranks, is at most half of the collection; each rank has at least one batch-norm group of its
    own. A queue longer than N - batch would hold an image's own keys as its negatives; `auto` is a quarter of the
    collection, at least a batch and at most 65536 keys.
    """
    if photos < FEWEST_PHOTOS:
        raise NoPhotos(f"Training needs at least {FEWEST_PHOTOS} photos that can be read; found {photos}.")
    method = recipe.method
    batch = min(recipe.batch, photos // 2)
    if batch < FEWEST_PER_RANK * ranks:
        raise BadDevices(f"A batch of {batch} cannot be spread over {ranks} devices: train on fewer --devices.")
    groups = ranks * max(1, min(method.batch_norm_groups, batch // FEWEST_PER_GROUP) // ranks)
    batch -= batch % groups
    fitted: dict[str, int] = {"batch_norm_groups": groups}
    notices = []
    if batch != recipe.batch:
        notices.append(f"batch {batch} instead of {recipe.batch}: at most half of {photos} photos")
    if groups != method.batch_norm_groups:
        notices.append(f"{groups} batch-norm groups instead of {method.batch_norm_groups}, to fit batch and devices")
    if method.size_key is not None:
        largest = photos - batch
        asked = getattr(method, method.size_key)
        automatic = min(max(batch, min(MOST_KEYS, photos // 4)), largest)
        size = automatic if asked == "auto" or asked > largest else asked
        fitted[method.size_key] = size
        if asked not in ("auto", size):
            notices.append(f"K {size} instead of {asked}: with more keys a photo would be its own negative")
    return recipe.model_copy(update={"batch": batch, "method": method.model_copy(update=fitted)}), notices


def continued(recipe: Recipe, init: Encoder) -> Recipe:
    """Return the recipe with the architecture of `init`, and photos normalized as they were for it."""
    card, seen = init.card, init.preprocessing
    backbone = BackboneSection(
        architecture=card.architecture,
        small_stem=card.small_stem,
        stem_padding=card.stem_padding,
        stem_relu=card.stem_relu,
    )
    views = recipe.views.model_copy(update={"mean": seen.mean, "std": seen.std})
    return recipe.model_copy(update={"backbone": backbone, "views": views})


def check_sizes(recipe: Recipe) -> None:
    """Raise BadRecipe unless the network takes pictures as large as the views, and as what the encoder will see.

    ResNets take every size; some networks of timm only that for which they were made.
    """
    if recipe.backbone.architecture in backbone_names():
        return
    network = new_network(recipe.backbone).eval()
    for size in (recipe.views.crop, recipe.encoder_input.crop):
        try:
            with torch.inference_mode():
                network(torch.zeros(1, 3, size, size))
        except (AssertionError, RuntimeError, ValueError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            raise BadRecipe(
                f"{recipe.backbone.architecture} takes no pictures of {size} pixels ({reason}): --set views.crop, "
                "encoder_input.crop and encoder_input.resize to the size it was made for, and views.fit_photos=0."
            ) from None
