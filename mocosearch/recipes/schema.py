"""What a recipe can say: sections and keys, their types and limits."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from mocosearch import imagenet

Probability = Annotated[float, Field(ge=0, le=1)]
Strength = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Length = Annotated[int, Field(ge=1)]
Side = Annotated[int, Field(ge=8, le=4096)]  # pixels


def _rising(pair: tuple[float, float]) -> tuple[float, float]:
    if pair[0] > pair[1]:
        raise ValueError("the first number should not be above the second")
    return pair


class Section(BaseModel):
    """A part of a recipe: immutable, no unknown keys, finite numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BackboneSection(Section):
    """The network whose output is searched; `nets.build_backbone` tells of the stem, and timm:NAME has its own."""

    architecture: str
    small_stem: bool = False
    stem_padding: int = Field(default=1, ge=0, le=3)
    stem_relu: bool = True

    @model_validator(mode="after")
    def _stem_can_be_changed(self) -> Self:
        if self.small_stem and self.architecture.startswith("timm:"):
            raise ValueError("small_stem is for ResNets of torchvision, such as backbone.architecture=resnet18")
        return self


class ContrastiveSection(Section):
    """What every contrastive method has: a projection head, a temperature, batch-norm groups (over all ranks)."""

    size_key: ClassVar[str | None] = None  # the key that says how many negatives a query meets, if one does
    head: Literal["linear", "mlp"]
    feature_dim: int = Field(ge=1, le=65536)
    temperature: PositiveFloat
    batch_norm_groups: Length


class MocoSection(ContrastiveSection):
    """Momentum contrast; `queue: auto` takes a quarter of the collection, at most 65536 keys."""

    size_key = "queue"
    name: Literal["moco"]
    queue: Length | Literal["auto"]
    momentum: Probability
    symmetric: bool = False


class EndToEndSection(ContrastiveSection):
    """The other images of the batch as negatives, gradients to queries and keys."""

    name: Literal["end_to_end"]
    shared_weights: bool = True


class MemoryBankSection(ContrastiveSection):
    """A stored key for every image; `negatives` of them are drawn for a step, `auto` as with a queue."""

    size_key = "negatives"
    name: Literal["memory_bank"]
    negatives: Length | Literal["auto"]
    momentum: Probability


MethodSection = MocoSection | EndToEndSection | MemoryBankSection


class JitterSection(Section):
    """Color jitter as torchvision's ColorJitter understands it, applied with probability `p`."""

    brightness: Strength
    contrast: Strength
    saturation: Strength
    hue: float = Field(ge=0, le=0.5)
    p: Probability


class BlurSection(Section):
    """Gaussian blur with a standard deviation drawn from `sigma`, in pixels of the crop."""

    sigma: Annotated[tuple[PositiveFloat, PositiveFloat], AfterValidator(_rising)]
    p: Probability


class ViewsSection(Section):
    """The augmentation that makes two views of an image; `order` is the order of application after the crop.

    `mean` and `std` normalize it: ImageNet's, or with --init those that the encoder was trained with. The crop is at
    most the share `fit_photos` of the photos' short side, and what the encoder sees shrinks with it; 0: however small.
    """

    crop: Side
    scale: Annotated[tuple[Share, Share], AfterValidator(_rising)]
    order: tuple[Literal["color_jitter", "grayscale", "blur"], ...]
    color_jitter: JitterSection
    grayscale: Probability
    blur: BlurSection
    flip: Probability
    fit_photos: Probability = 0.0
    mean: tuple[float, float, float] = imagenet.MEAN
    std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] = imagenet.STD


class OptimizerSection(Section):
    """The optimizer; `lr` is for a global batch of `lr_batch` and scales linearly with the batch."""

    name: Literal["sgd", "adamw"]
    lr: float = Field(gt=0)
    lr_batch: int = Field(ge=1)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: Strength


class ScheduleSection(Section):
    """The learning rate over the run: cosine or x0.1 at `milestones` (shares of the run), per epoch or per step.

    During the first `warmup`, a share of the run, it rises from 0 to where its schedule is then.
    """

    epochs: int = Field(ge=1)
    shape: Literal["cosine", "steps"]
    milestones: tuple[Probability, ...] = ()
    warmup: float = Field(default=0, ge=0, lt=1)
    per: Literal["epoch", "step"]


class EncoderInputSection(Section):
    """How the finished encoder sees a photo: short side resized to `resize`, then a center crop of `crop` pixels."""

    resize: Side
    crop: Side

    @model_validator(mode="after")
    def _crop_fits(self) -> Self:
        if self.crop > self.resize:
            raise ValueError(f"the crop of {self.crop} pixels should not be larger than the {self.resize} resized to")
        return self


class Recipe(Section):
    """A complete recipe."""

    backbone: BackboneSection
    method: Annotated[MethodSection, Field(discriminator="name")]
    views: ViewsSection
    optimizer: OptimizerSection
    schedule: ScheduleSection
    batch: int = Field(ge=2)
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    encoder_input: EncoderInputSection
