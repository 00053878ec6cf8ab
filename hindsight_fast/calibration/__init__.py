"""How far a pool's scores can be believed: what theta, K, weights, index and pool size do to them.

`calibrate` looks some ideas up, and says what an index loses, between which cosines the encoder's
similarities lie, which theta would be right, and how mean score and match rate move with theta, K,
the weight of citations, the size of the pool and single papers of it.
"""

from hindsight_fast.calibration._calibrate import Calibration, calibrate
from hindsight_fast.calibration._page import page
from hindsight_fast.calibration._sample import LIMIT
from hindsight_fast.calibration._section import Section
from hindsight_fast.calibration._words import sections, summary

__all__ = ["LIMIT", "Calibration", "Section", "calibrate", "page", "sections", "summary"]
