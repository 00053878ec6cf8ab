"""Products of queries and papers on a device: the graph, how exact they are, and the proof."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from hindsight_models.errors import ModelError
from hindsight_models.session import ArraySession

_OPSET, _IR_VERSION = 20, 10  # as the encoder's graphs


def graph() -> bytes:
    """Products of all queries with a block, and the largest of them for each query."""
    nodes = [
        helper.make_node("Gemm", ["queries", "papers"], ["products"], transB=1),
        helper.make_node("TopK", ["products", "count"], ["values", "places"], axis=1),
    ]
    floats, whole = TensorProto.FLOAT, TensorProto.INT64
    whole_graph = helper.make_graph(
        nodes,
        "nearest",
        [
            helper.make_tensor_value_info("queries", floats, ["n", "d"]),
            helper.make_tensor_value_info("papers", floats, ["m", "d"]),
            helper.make_tensor_value_info("count", whole, [1]),
        ],
        [
            helper.make_tensor_value_info("values", floats, ["n", "c"]),
            helper.make_tensor_value_info("places", whole, ["n", "c"]),
        ],
    )
    model = helper.make_model(
        whole_graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    return bytes(model.SerializeToString())


def error_bound(d: int) -> tuple[float, float]:
    """(relative, absolute) parts of eps: eps = relative |q| |x| + absolute."""
    u, u64 = 2.0**-24, 2.0**-53
    gamma, gamma64 = d * u / (1 - d * u), d * u64 / (1 - d * u64)
    slack = 1 + 1e-6  # the bound itself is computed with rounding
    return (gamma + u + 2 * gamma64) * slack, d * 2.0**-125


def prove(session: ArraySession, d: int, device: str) -> None:
    """Try a device beside numpy in float64, with numbers that TF32 or bfloat16 would round."""
    rng = np.random.default_rng(0)
    papers, queries = (rng.standard_normal((n, d)).astype(np.float32) for n in (2500, 40))
    papers[7], queries[7] = 1 + 0.9 * 2.0**-11, 1 + 0.9 * 2.0**-11
    count = 40
    placed = session.place(papers)
    given: dict[str, NDArray[Any]] = {"queries": queries, "count": np.array([count], np.int64)}
    values, places = session.run({"papers": placed}, given)
    places = np.clip(places, 0, len(papers) - 1)  # whatever it says
    right = queries.astype(np.float64) @ papers.T.astype(np.float64)
    norms = np.linalg.norm(queries, axis=1) * np.linalg.norm(papers, axis=1).max()
    bound = 1.001 * (error_bound(d)[0] * norms[:, None] + error_bound(d)[1])
    named = np.zeros(right.shape, bool)
    np.put_along_axis(named, places, True, axis=1)
    apart = np.abs(np.take_along_axis(right, places, axis=1) - values)
    missed = ~named & (right > values[:, -1:] + 2 * bound)
    if not ((apart <= bound).all() and (named.sum(axis=1) == count).all() and not missed.any()):
        raise wrong(device, float(apart.max()))
    last = session.run({"papers": placed}, {**given, "queries": queries[7:8]})[0][0, 0]
    if not abs(last - right[7].max()) <= bound[7, 0]:
        raise wrong(device, float(abs(last - right[7].max())))


def wrong(device: str, apart: float) -> ModelError:
    return ModelError(
        f"{device} computes other products than the CPU, {apart:.2g} apart, as if float32 were not "
        "float32 there; scan on the CPU"
    )
