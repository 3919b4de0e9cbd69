"""The paper's ablations on one's own photos: many short runs that differ in one thing each, scored alike."""

from mocosearch.ablations.studies import STUDIES, Baseline, Cell, Study
from mocosearch.ablations.sweep import CellResult, Sweep

__all__ = ["STUDIES", "Baseline", "Cell", "CellResult", "Study", "Sweep"]
