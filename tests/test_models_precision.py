"""Lower precisions of the CPU: 8 bits by onnxruntime, bfloat16 by OpenVINO."""

import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hindsight_models import Card, ModelError, int8, load, openvino
from hindsight_models.card import GRAPH_FILE
from hindsight_models.openvino import OpenvinoSession
from hindsight_models.session import CpuSession
from tiny_model import tiny_model

PAIRS = [("the model", " ".join(["graph of data"] * n)) for n in (1, 5, 5, 9, 20, 1, 40)]


@pytest.fixture(scope="module", params=["mean", "cls"])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A tiny model with each pooling, the second with an adapter."""
    place = tmp_path_factory.mktemp("precision") / "tiny"
    return tiny_model(
        place, dim=64, pooling=request.param, adapter=request.param == "cls", max_tokens=128
    )


# 8 bits ------------------------------------------------------------------------------------------


@given(st.integers(1, 9), st.integers(1, 9), st.floats(1e-6, 1e6), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_rounded_weights_are_within_half_a_step(
    out: int, into: int, size: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weight = (rng.standard_normal((out, into)) * size).astype(np.float32)
    weight[0] = 0
    whole, scales = int8.quantised(weight)
    assert whole.dtype == np.int8
    assert np.abs(whole.astype(int)).max() <= 127
    error = np.abs(whole * scales[:, None].astype(np.float64) - weight)
    assert (error <= scales[:, None] * 0.5001).all()


def test_8_bits_are_near_and_not_the_same(folder: Path) -> None:
    encoder, exact = load(folder, device="cpu", precision="int8"), load(folder, device="cpu")
    assert (encoder.device, encoder.precision) == ("cpu", "int8")
    assert encoder.fingerprint == exact.fingerprint
    cosines = np.einsum("nd,nd->n", encoder.encode(PAIRS), exact.encode(PAIRS))
    assert 0.995 < cosines.min() < 0.9999999


def test_8_bits_depend_on_no_neighbour(folder: Path) -> None:
    encoder = load(folder, device="cpu", precision="int8")
    together = encoder.encode_counted(PAIRS)
    alone = np.concatenate([encoder.encode([pair]) for pair in PAIRS])
    assert np.array_equal(together.vectors, alone)
    assert not together.retried.any()


def test_weights_stored_for_either_processor_are_the_same_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[dict[str, NDArray[np.int64]]] = []
    for vnni in (True, False):
        monkeypatch.setattr(int8, "has_vnni", partial(bool, vnni))
        graph = onnx.ModelProto.FromString(int8.quantised_graph(folder)).graph
        held = {each.name: each for each in graph.initializer}
        whole = {
            name: onnx.numpy_helper.to_array(held[name]).astype(np.int64)
            for name in held
            if name.endswith((".whole", ".zeros"))
        }
        names = [name.removesuffix(".zeros") for name in whole if name.endswith(".zeros")]
        assert len(names) == sum(node.op_type == "MatMulIntegerToFloat" for node in graph.node)
        stored.append({n: whole[f"{n}.whole"] - whole[f"{n}.zeros"] for n in names})
    signed, unsigned = stored
    assert all(np.array_equal(signed[name], unsigned[name]) for name in signed)


# bfloat16 ----------------------------------------------------------------------------------------


def test_float16_is_refused_on_the_cpu(folder: Path) -> None:
    with pytest.raises(ModelError, match="float16 is for CUDA"):
        load(folder, device="cpu", precision="float16")


def test_a_precision_that_is_none_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="precision is 'half'; expected auto, float32, float16"):
        load(folder, precision="half")


def test_bfloat16_without_openvino_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ModelError, match=r"pip install 'hindsight-fast\[openvino\]'"):
        load(folder, precision="bfloat16")


def test_bfloat16_is_had_or_refused_with_what_the_processor_lacks(folder: Path) -> None:
    core = pytest.importorskip("openvino").Core()
    if "BF16" in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        encoder = load(folder, precision="bfloat16", threads=2)
        assert (encoder.device, encoder.precision) == ("cpu", "bfloat16")
        vectors, exact = encoder.encode(PAIRS), load(folder, device="cpu").encode(PAIRS)
        assert np.einsum("nd,nd->n", vectors, exact).min() > 0.999
        return
    with pytest.raises(ModelError, match=r"computes no bfloat16: that takes the AVX512_BF16"):
        load(folder, precision="bfloat16")


def test_openvino_computes_what_onnxruntime_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino")
    in_float32 = OpenvinoSession(folder, Card.read(folder), 2, hint="f32")

    def opened(_folder: Path, _card: Card, _threads: int) -> OpenvinoSession:
        return in_float32

    monkeypatch.setattr(openvino, "OpenvinoSession", opened)
    encoder = load(folder, precision="bfloat16", threads=2)
    encoded = encoder.encode_counted(PAIRS * 5)
    assert np.abs(encoded.vectors - load(folder, device="cpu").encode(PAIRS * 5)).max() < 1e-6
    assert np.allclose(np.linalg.norm(encoded.vectors, axis=1), 1, rtol=0, atol=2e-7)
    assert not encoded.retried.any()


def test_a_forked_child_has_8_bits_and_is_refused_bfloat16_in_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight = load(folder, device="cpu", precision="int8")
    expected = eight.encode(PAIRS)
    assert in_child(lambda: np.array_equal(eight.encode(PAIRS), expected)) == 0

    def opened(folder: Path, card: Card, _threads: int) -> CpuSession:
        return CpuSession(folder / GRAPH_FILE, folder, card, "bfloat16")

    monkeypatch.setattr(openvino, "OpenvinoSession", opened)
    encoder = load(folder, precision="bfloat16")

    def refused() -> bool:
        with pytest.raises(ModelError, match="in bfloat16 before this process was forked"):
            encoder.encode(PAIRS)
        return True

    assert in_child(refused) == 0


def in_child(check: Callable[[], bool]) -> int:
    """How a forked child ends: with 0 where the check holds there within 30 s."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_two_first_runs_of_openvino_at_once_end(folder: Path) -> None:
    """Where the session doesn't make a first run of its own, this process hangs for ever."""
    pytest.importorskip("openvino")
    code = (
        "import sys, threading, numpy as np; from pathlib import Path\n"
        "from hindsight_models import Card; from hindsight_models.openvino import OpenvinoSession\n"
        "folder = Path(sys.argv[1])\n"
        "session = OpenvinoSession(folder, Card.read(folder), 2, hint='f32')\n"
        "both, ones = threading.Barrier(2), np.ones((1, 9), np.int32)\n"
        "run = lambda: (both.wait(), session.run(ones, ones))\n"
        "threads = [threading.Thread(target=run) for _ in range(2)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True, timeout=60)


def test_a_graph_that_is_none_is_refused_by_openvino(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    folder = tiny_model(tmp_path)
    card = Card.read(folder)
    (folder / "model.onnx").write_bytes(b"none")
    with pytest.raises(ModelError, match="can't be loaded by OpenVINO"):
        OpenvinoSession(folder, card, 1, hint="f32")
