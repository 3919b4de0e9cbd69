"""From a recipe and a number of images to what trains: sizes that fit the collection, method and optimizer."""

import torch

from mocosearch import randomness
from mocosearch.distributed import seeded_permutation
from mocosearch.errors import NoPhotos
from mocosearch.methods import Method, MoCo
from mocosearch.methods.dictionaries import Queue
from mocosearch.nets import ProjectedEncoder, build_backbone, build_head, feature_dim
from mocosearch.recipes import Recipe

FEWEST_PHOTOS = 8
MOST_KEYS = 65536
FEWEST_PER_GROUP = 8  # images whose statistics batch norm can live with


def fit_to_collection(recipe: Recipe, photos: int) -> tuple[Recipe, list[str]]:
    """Return the recipe with batch, batch-norm groups and queue that `photos` images allow, and what was changed.

    The batch is at most half of the collection. A queue longer than N - batch would hold an image's own keys as its
    negatives; `auto` is a quarter of the collection, at least a batch and at most 65536 keys.
    """
    if photos < FEWEST_PHOTOS:
        raise NoPhotos(f"Training needs at least {FEWEST_PHOTOS} photos that can be read; found {photos}.")
    batch = min(recipe.batch, photos // 2)
    groups = max(1, min(recipe.method.batch_norm_groups, batch // FEWEST_PER_GROUP))
    batch -= batch % groups
    largest_queue = photos - batch
    automatic = min(max(batch, min(MOST_KEYS, photos // 4)), largest_queue)
    asked = recipe.method.queue
    queue = automatic if asked == "auto" or asked > largest_queue else asked
    notices = []
    if batch != recipe.batch:
        notices.append(f"batch {batch} instead of {recipe.batch}: at most half of {photos} photos")
    if groups != recipe.method.batch_norm_groups:
        notices.append(f"{groups} batch-norm groups instead of {recipe.method.batch_norm_groups}: the batch is small")
    if asked not in ("auto", queue):
        notices.append(f"K {queue} instead of {asked}: with more keys a photo would be its own negative")
    method = recipe.method.model_copy(update={"queue": queue, "batch_norm_groups": groups})
    return recipe.model_copy(update={"batch": batch, "method": method}), notices


def build_method(recipe: Recipe, device: torch.device) -> Method:
    """Build the recipe's method with weights that depend on its seed alone."""
    moco = recipe.method
    if moco.queue == "auto":
        raise ValueError("fit_to_collection() turns an automatic queue into a number first")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(randomness.seed_of(recipe.seed))
        backbone = build_backbone(recipe.backbone.architecture, small_stem=recipe.backbone.small_stem)
        dim = feature_dim(backbone)
        encoder = ProjectedEncoder(backbone, build_head(moco.head, dim, moco.feature_dim))
    method = MoCo(
        encoder,
        Queue(moco.queue, moco.feature_dim, seed=randomness.seed_of(recipe.seed, 1)),
        momentum=moco.momentum,
        temperature=moco.temperature,
        batch_norm_groups=moco.batch_norm_groups,
        permutation=seeded_permutation(recipe.seed),
    )
    return method.to(device).to(memory_format=torch.channels_last)


def build_optimizer(recipe: Recipe, method: Method) -> torch.optim.Optimizer:
    """Build the optimizer over everything that receives a gradient; the schedule sets its learning rate."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    options = recipe.optimizer
    if options.name == "sgd":
        return torch.optim.SGD(parameters, lr=options.lr, momentum=options.momentum, weight_decay=options.weight_decay)
    return torch.optim.AdamW(
        parameters, lr=options.lr, betas=(options.momentum, 0.999), weight_decay=options.weight_decay
    )
