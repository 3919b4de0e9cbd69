"""The one door for commands and page: a folder of photos, the encoder that sees them and their index."""

from mocosearch.library.library import Hit, Library, LibraryStatus, Progress, UpdateReport
from mocosearch.library.queries import Crop

__all__ = ["Crop", "Hit", "Library", "LibraryStatus", "Progress", "UpdateReport"]
