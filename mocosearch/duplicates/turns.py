"""The eight ways in which a picture can lie: turned by quarters, mirrored or not."""

from PIL import Image

# In words: how a copy lies when the original is upright.
TURNS: tuple[tuple[Image.Transpose | None, str], ...] = (
    (None, "upright"),
    (Image.Transpose.ROTATE_90, "turned left"),
    (Image.Transpose.ROTATE_180, "upside down"),
    (Image.Transpose.ROTATE_270, "turned right"),
    (Image.Transpose.FLIP_LEFT_RIGHT, "mirrored"),
    (Image.Transpose.TRANSPOSE, "mirrored and turned left"),
    (Image.Transpose.FLIP_TOP_BOTTOM, "mirrored and upside down"),
    (Image.Transpose.TRANSVERSE, "mirrored and turned right"),
)
