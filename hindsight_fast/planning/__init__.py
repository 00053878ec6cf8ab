"""What a job will cost before it begins: time, memory, disk, on this machine and on a GPU."""

from hindsight_fast.planning._gpus import GPUS, UTILISATION, Gpu
from hindsight_fast.planning._job import KNOWN_SHAPES, Job, Shape, shape_of
from hindsight_fast.planning._machine import Machine, look
from hindsight_fast.planning._measuring import measure_speeds, typical_texts
from hindsight_fast.planning._plan import Plan, make_plan
from hindsight_fast.planning._speeds import Speeds, assumed
from hindsight_fast.planning._stages import Costs, Stage

__all__ = [
    "GPUS",
    "KNOWN_SHAPES",
    "UTILISATION",
    "Costs",
    "Gpu",
    "Job",
    "Machine",
    "Plan",
    "Shape",
    "Speeds",
    "Stage",
    "assumed",
    "look",
    "make_plan",
    "measure_speeds",
    "shape_of",
    "typical_texts",
]
