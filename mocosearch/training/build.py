"""From a recipe that fits its collection to what trains: method and optimizer."""

from collections.abc import Mapping

import torch
from torch import Tensor

from mocosearch import randomness
from mocosearch.distributed import seeded_permutation, world_size
from mocosearch.encoders import Preprocessing, new_network
from mocosearch.methods import EndToEnd, InstanceDiscrimination, Method, MoCo
from mocosearch.methods.dictionaries import MemoryBank, Queue
from mocosearch.nets import ProjectedEncoder, build_head, feature_dim
from mocosearch.recipes import EndToEndSection, MemoryBankSection, MocoSection, Recipe


def negatives(recipe: Recipe) -> int:
    """Return K, the number of negatives that each query of a fitted recipe meets."""
    method = recipe.method
    return recipe.batch - 1 if method.size_key is None else int(getattr(method, method.size_key))


def preprocessing_of(recipe: Recipe) -> Preprocessing:
    """Return how the recipe's finished encoder sees a photo."""
    size = recipe.encoder_input
    return Preprocessing(resize=size.resize, crop=size.crop, mean=recipe.views.mean, std=recipe.views.std)


def build_method(
    recipe: Recipe, device: torch.device, *, photos: int, init: Mapping[str, Tensor] | None = None
) -> Method:
    """Build the method of a fitted recipe for a list of `photos` images.

    Its weights depend on the recipe's seed alone, but for the backbone's if `init` gives them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(randomness.seed_of(recipe.seed))
        backbone = new_network(recipe.backbone)
        if init is not None:
            backbone.load_state_dict(init)
        head = build_head(recipe.method.head, feature_dim(backbone), recipe.method.feature_dim)
    method = _method(recipe, ProjectedEncoder(backbone, head), photos)
    return method.to(device).to(memory_format=torch.channels_last)


def _method(recipe: Recipe, encoder: ProjectedEncoder, photos: int) -> Method:
    options = recipe.method
    groups = max(1, options.batch_norm_groups // world_size())  # those of one rank
    dictionary_seed = randomness.seed_of(recipe.seed, 1)
    permutation = seeded_permutation(recipe.seed)
    match options:
        case MocoSection():
            return MoCo(
                encoder,
                Queue(negatives(recipe), options.feature_dim, seed=dictionary_seed),
                momentum=options.momentum,
                temperature=options.temperature,
                permutation=permutation,
                batch_norm_groups=groups,
                symmetric=options.symmetric,
            )
        case EndToEndSection():
            return EndToEnd(
                encoder,
                temperature=options.temperature,
                permutation=permutation,
                shared_weights=options.shared_weights,
                batch_norm_groups=groups,
            )
        case MemoryBankSection():
            bank = MemoryBank(
                photos,
                options.feature_dim,
                negatives=negatives(recipe),
                momentum=options.momentum,
                seed=dictionary_seed,
            )
            return InstanceDiscrimination(encoder, bank, temperature=options.temperature, batch_norm_groups=groups)


def build_optimizer(recipe: Recipe, method: Method) -> torch.optim.Optimizer:
    """Build the optimizer over everything that receives a gradient; the schedule sets its learning rate."""
    parameters = [parameter for parameter in method.parameters() if parameter.requires_grad]
    options = recipe.optimizer
    lr, decay = options.lr, options.weight_decay  # fused below: one pass over the memory of all weights
    if options.name == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=options.momentum, weight_decay=decay, fused=True)
    return torch.optim.AdamW(parameters, lr, betas=(options.momentum, 0.999), weight_decay=decay, fused=True)
