"""Exact products of bytes on the CPU, by onnxruntime: AMX, VNNI or AVX2, whatever it finds."""

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from hindsight_models.errors import ModelError
from hindsight_models.session import ArraySession

_OPSET, _IR_VERSION = 20, 10  # as the encoder's graphs
_LARGEST = 64
"""Of signed bytes: without VNNI, pairs of products are added in int16, and 2 x 255 x 64 fits."""


class IntegerProducts:
    """Multiplies bytes: unsigned rows (m, a) and signed columns (a, n), int8 of -64 to 64.

    May be called from several threads at once, each of which computes alone, and after a fork.

    Raises
    ------
    ModelError
        No onnxruntime, or one whose sums are wrong here.
    """

    def __init__(self) -> None:
        self._session = ArraySession(_graph(), None)
        self._prove()

    def __call__(self, rows: NDArray[np.uint8], columns: NDArray[np.int8]) -> NDArray[np.int32]:
        """Products of shape (m, n), int32."""
        if not len(columns):  # onnxruntime leaves such sums as they lay in memory
            return np.zeros((len(rows), columns.shape[1]), np.int32)
        products: NDArray[np.int32] = self._session.run({}, {"rows": rows, "columns": columns})[0]
        return products

    def _prove(self) -> None:
        """Try sums as large as they come, and widths that fill no register."""
        rng = np.random.default_rng(0)
        for width in (1, 63, 128, 770):
            rows = rng.integers(0, 256, (70, width), np.uint8)
            columns = rng.integers(-_LARGEST, _LARGEST + 1, (width, 33), np.int8)
            rows[:2], columns[:, 0], columns[:, 1] = 255, _LARGEST, -_LARGEST
            expected = rows.astype(np.int64) @ columns.astype(np.int64)
            if not np.array_equal(self(rows, columns), expected):
                raise ModelError("onnxruntime's products of bytes are wrong on this processor")


def _graph() -> bytes:
    whole_graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["rows", "columns"], ["products"])],
        "integers",
        [
            helper.make_tensor_value_info("rows", TensorProto.UINT8, ["m", "a"]),
            helper.make_tensor_value_info("columns", TensorProto.INT8, ["a", "n"]),
        ],
        [helper.make_tensor_value_info("products", TensorProto.INT32, ["m", "n"])],
    )
    model = helper.make_model(
        whole_graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    return bytes(model.SerializeToString())
