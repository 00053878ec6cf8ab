"""What stages would cost on a GPU of a given class: estimated from data sheets, not measured."""

from typing import Final, NamedTuple

from hindsight_fast.planning import _sizes as sizes
from hindsight_fast.planning._job import Job, Shape
from hindsight_fast.planning._stages import Stage

UTILISATION: Final = 0.35
"""Share of the peak that is assumed: what is left after padding, attention and small products."""

_BATCH: Final = 1024  # ideas for which papers are read from the GPU's memory once
_SPARE: Final = 2e9  # bytes for the model and its batches


class Gpu(NamedTuple):
    """A class of GPUs.

    Attributes
    ----------
    memory_gb
        GB.
    half_tflops, single_tflops
        Dense products in float16 (sums in float32), and in float32 without shortcuts; 1e12 a
        second.
    bandwidth_gbps
        GB a second.
    """

    name: str
    memory_gb: int
    half_tflops: float
    single_tflops: float
    bandwidth_gbps: float


# NVIDIA's public data sheets: "A100 Tensor Core GPU" (80 GB, SXM), "H100 Tensor Core GPU" (SXM),
# "H200 Tensor Core GPU" (SXM), "L4 Tensor Core GPU", "T4 Tensor Core GPU"; of the RTX 4090, "NVIDIA
# Ada GPU Architecture" (appendix A). Where a sheet counts sparsity, this is half of its figure.
GPUS: Final = {
    "t4": Gpu("T4", 16, 65, 8.1, 320),
    "l4": Gpu("L4", 24, 121, 30.3, 300),
    "rtx4090": Gpu("RTX 4090", 24, 165.2, 82.6, 1008),
    "a100": Gpu("A100 80 GB", 80, 312, 19.5, 2039),
    "h100": Gpu("H100", 80, 989.4, 66.9, 3350),
    "h200": Gpu("H200", 141, 989.4, 66.9, 4800),
}


def seconds_on(gpu: Gpu, stage: Stage, job: Job, shape: Shape) -> float | None:
    """Seconds of a stage there; as here where a GPU can't help, None where papers don't fit.

    Encoding is in float16, no faster than tokens are made here. A scan is in float32, of papers
    that stay in the GPU's memory.
    """
    if not stage.flops:
        return stage.seconds
    if not stage.name.startswith("search"):
        return max(stage.flops / (gpu.half_tflops * 1e12 * UTILISATION), stage.feeding)
    papers = sizes.vectors(job.papers, shape.dim)
    if papers + _SPARE > gpu.memory_gb * 1e9:
        return None
    computing = stage.flops / (gpu.single_tflops * 1e12 * UTILISATION)
    return max(computing, -(-job.ideas // _BATCH) * papers / (gpu.bandwidth_gbps * 1e9))
