"""From texts to vectors: the text rule, the plan, the bits, threads and forks."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models import Encoder, ModelError, RequestError, load
from hindsight_models.batches import fill, plan_cpu, plan_cuda, plan_openvino
from hindsight_models.card import GRAPH_FILE
from reference import bert_vector, load_tensors
from test_models_folder import foreign
from tiny_model import minilm_folder, tiny_model, vocabulary

WORDS = [
    "the",
    "model",
    "of",
    "a",
    "graph",
    "we",
    "learn",
    "neural",
    "data",
    "x1",
    "y-2",
    "language",
    "image",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model that takes 512 tokens."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny", max_tokens=512)


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    """The tiny model, opened."""
    return load(folder, device="cpu")


def text_of(length: int, seed: int = 0) -> tuple[str, str]:
    """A pair with exactly `length` tokens, [CLS] and [SEP] included."""
    rng = np.random.default_rng((length, seed))
    return "", " ".join(rng.choice(["the", "model", "graph", "a", "of"], length - 2).tolist())


# The text rule -----------------------------------------------------------------------------------


def test_vectors_are_the_twins(folder: Path, encoder: Encoder) -> None:
    weights = load_tensors(folder / "model.safetensors")
    ids = [vocabulary().index(token) for token in ("[CLS]", "a", ".", "graph", "##s", "[SEP]")]
    expected = bert_vector(ids, weights, layers=2, heads=4, pooling="mean")
    assert np.abs(encoder.encode([("A", "graphs")])[0] - expected).max() < 1e-6


def test_the_separator_stands_only_between_two_texts(encoder: Encoder) -> None:
    one = encoder.encode([("the model. graph", "")])
    for pair in (("the model", "graph"), ("", "the model. graph"), (" \n", "the model. graph")):
        assert np.array_equal(encoder.encode([pair]), one)


@pytest.mark.parametrize(
    "text", ["", "   \n\t", "\0", "\ud800", "\udfff tail", "🦜🧪", "漢字", "\u200b", "[SEP] [PAD]"]
)
def test_odd_texts_have_unit_vectors(encoder: Encoder, text: str) -> None:
    encoded = encoder.encode_counted([(text, ""), ("", text), (text, text)])
    assert np.allclose(np.linalg.norm(encoded.vectors, axis=1), 1.0, atol=1e-5)
    assert encoded.n_tokens.min() >= 2
    assert not encoded.truncated.any()


def test_a_lone_surrogate_is_a_question_mark(encoder: Encoder) -> None:
    assert np.array_equal(encoder.encode([("a \ud800", "b")]), encoder.encode([("a ?", "b")]))


def test_a_long_text_is_cut_with_its_last_token_kept(encoder: Encoder) -> None:
    tokens = encoder._tokenizer("", "model " * 3000)  # pyright: ignore[reportPrivateUsage]
    assert len(tokens.ids) == 512
    assert tokens.ids[-1] == 3
    assert tokens.truncated
    encoded = encoder.encode_counted([("", "model " * n) for n in (509, 510, 511, 3000)])
    assert encoded.n_tokens.tolist() == [511, 512, 512, 512]
    assert encoded.truncated.tolist() == [False, False, True, True]
    assert np.array_equal(encoded.vectors[1], encoded.vectors[3])


def test_what_the_file_says_of_padding_and_cutting_is_ignored(encoder: Encoder) -> None:
    assert encoder.count_tokens([("a", ""), ("", "model " * 40)]).tolist() == [3, 42]


# The plan ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(2, 512), max_size=200), st.integers(1, 5000))
def test_every_text_is_in_one_batch(lengths: list[int], tokens: int) -> None:
    for batches in (plan_cpu(lengths, tokens), plan_cuda(lengths, 512, tokens)):
        members = [m for batch in batches for m in batch.members]
        assert sorted(members) == list(range(len(lengths)))
        assert all(lengths[m] <= batch.length for batch in batches for m in batch.members)
    for batch in plan_openvino(lengths, 512):
        assert batch.length % 16 == 0
        assert all(0 <= batch.length - lengths[i] < 16 for i in batch.members)
    for batch in plan_cpu(lengths, tokens):
        assert {lengths[m] for m in batch.members} == {batch.length}
        assert batch.rows == len(batch.members)
        assert batch.rows == 1 or batch.rows * batch.length <= tokens


def test_cuda_sees_few_shapes() -> None:
    lengths = [5 + i % 507 for i in range(10_000)]
    assert len({(batch.rows, batch.length) for batch in plan_cuda(lengths, 512)}) <= 12
    assert {batch.length for batch in plan_cuda([5, 40, 100], 100)} == {64, 100}


def test_rows_beyond_the_members_are_texts_too() -> None:
    ids = [np.array([2, 9, 3], np.int32), np.array([2, 3], np.int32)]
    (batch,) = plan_cuda([3, 2], 512, tokens=96)
    filled, mask = fill(batch, ids)
    assert filled.shape == mask.shape == (3, 32)
    assert mask.sum(1).tolist() == [3, 2, 3]
    assert filled[:, :4].tolist() == [[2, 9, 3, 0], [2, 3, 0, 0], [2, 9, 3, 0]]


# The bits ----------------------------------------------------------------------------------------


def test_a_vector_is_the_same_to_the_bit_alone_and_in_any_batch(encoder: Encoder) -> None:
    lengths = [*range(2, 70), 127, 128, 129, 255, 256, 257, 383, 384, 511, 512]
    pairs = [text_of(length, seed) for length in lengths for seed in range(5)]
    together = encoder.encode_counted(pairs)
    assert together.n_tokens.tolist() == [length for length in lengths for _ in range(5)]
    alone = np.concatenate([encoder.encode([pair]) for pair in pairs])
    assert np.array_equal(together.vectors, alone)
    order: list[int] = np.random.default_rng(0).permutation(len(pairs)).tolist()
    shuffled = encoder.encode([pairs[i] for i in order])
    assert np.array_equal(shuffled, together.vectors[order])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
            st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
        ),
        max_size=40,
    ),
    st.integers(1, 3),
)
def test_neighbours_and_threads_change_no_bit(
    folder: Path, encoder: Encoder, pairs: list[tuple[str, str]], threads: int
) -> None:
    other = load(folder, device="cpu", threads=threads)
    alone = np.array([encoder.encode([pair])[0] for pair in pairs], np.float32)
    assert np.array_equal(other.encode(pairs), alone.reshape(len(pairs), encoder.dim))


@pytest.mark.slow
def test_minilm_gives_the_same_bits_alone_and_in_any_batch() -> None:
    minilm = minilm_folder()
    encoder = load(minilm, device="cpu")
    lengths = [*range(2, 257, 3), 255, 256]
    pairs = [text_of(length, seed) for length in lengths for seed in range(4)]
    alone = np.concatenate([encoder.encode([pair]) for pair in pairs])
    assert np.array_equal(encoder.encode(pairs), alone)
    assert np.array_equal(load(minilm, device="cpu", threads=1).encode(pairs[::-1]), alone[::-1])


# Calls -------------------------------------------------------------------------------------------


def test_no_texts_give_no_rows(encoder: Encoder) -> None:
    encoded = encoder.encode_counted([])
    assert encoded.vectors.shape == (0, encoder.dim)
    assert encoded.n_tokens.shape == encoded.truncated.shape == (0,)


def test_more_than_a_chunk_comes_back_in_order_with_progress(encoder: Encoder) -> None:
    pairs = [text_of(2 + i % 9, i) for i in range(2500)]
    done: list[tuple[int, int]] = []
    encoded = encoder.encode_counted(pairs, lambda texts, tokens: done.append((texts, tokens)))
    assert np.array(done).sum(axis=0).tolist() == [len(pairs), encoded.n_tokens.sum()]
    assert encoded.n_tokens.tolist() == [2 + i % 9 for i in range(2500)]
    at = [0, 1023, 1024, 2047, 2499]
    assert np.array_equal(encoded.vectors[at], encoder.encode([pairs[i] for i in at]))


def test_an_interrupt_from_progress_ends_the_call(encoder: Encoder) -> None:
    def interrupt(_texts: int, _tokens: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder.encode_counted([text_of(5, i) for i in range(3000)], interrupt)
    assert not [each for each in threading.enumerate() if each.name.startswith("encode")]


def test_calls_from_several_threads_agree(encoder: Encoder) -> None:
    pairs = [text_of(3 + i % 20, i) for i in range(60)]
    expected = encoder.encode(pairs)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(encoder.encode, [pairs] * 8):
            assert np.array_equal(vectors, expected)


def test_a_forked_child_computes_the_same(encoder: Encoder) -> None:
    pairs = [text_of(3 + i % 20, i) for i in range(200)]
    expected = encoder.encode(pairs)
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        try:
            os._exit(0 if np.array_equal(encoder.encode(pairs), expected) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_are_clamped_to_what_the_process_may_use(folder: Path) -> None:
    assert load(folder, device="cpu", threads=10_000).threads == len(os.sched_getaffinity(0))
    with pytest.raises(ModelError, match="threads is 0"):
        load(folder, device="cpu", threads=0)


def test_a_process_bound_to_one_processor_takes_one_thread_and_says_nothing(folder: Path) -> None:
    one = min(os.sched_getaffinity(0))
    code = (
        f"import os, sys; os.sched_setaffinity(0, {{{one}}})\n"
        "from hindsight_fast import load_encoder\n"
        "encoder = load_encoder(sys.argv[1], device='cpu', threads=8)\n"
        "print(encoder.threads, encoder.encode([('the', 'model')] * 300).shape)\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("1 (300, 32)\n", "")


def test_where_the_system_has_no_affinity_all_processors_may_be_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert load(folder, device="cpu").threads == os.cpu_count()


def test_a_model_that_gives_no_unit_vector_is_named_with_the_text(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "good")
    weights = load_tensors(folder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][5] = np.nan  # the letter a
    save_file(weights, tmp_path / "nan.safetensors")
    broken = tiny_model(tmp_path / "nan", weights=tmp_path / "nan.safetensors")
    with pytest.raises(ModelError, match="text 2 got a vector of norm nan"):
        load(broken, device="cpu").encode([("b", ""), ("model", ""), ("a", "")])


def test_a_length_that_would_move_matches_is_no_unit_vector(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    model = onnx.ModelProto.FromString((folder / GRAPH_FILE).read_bytes())
    last = next(node for node in model.graph.node if "vectors" in node.output)
    last.output[0] = "unit"
    factor = onnx.numpy_helper.from_array(np.array([1.00005], np.float32), "factor")
    model.graph.initializer.append(factor)
    model.graph.node.append(onnx.helper.make_node("Mul", ["unit", "factor"], ["vectors"]))
    foreign(folder, GRAPH_FILE, model.SerializeToString())
    with pytest.raises(ModelError, match=r"norm 1\.0000\d+, not 1"):
        load(folder, device="cpu").encode([("a", "b")])


# Devices -----------------------------------------------------------------------------------------


def test_auto_says_what_it_uses(folder: Path) -> None:
    encoder = load(folder)
    assert encoder.device.split(",")[0] in ("cpu", "cuda:0")
    assert encoder.device_note.startswith("not on CUDA: ") == (encoder.device == "cpu")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CPU", "", "cuda:0 "])
def test_an_unknown_device_is_refused(folder: Path, device: str) -> None:
    with pytest.raises(RequestError, match="expected auto, cpu, cuda"):
        load(folder, device=device)


def test_cuda_that_is_not_there_is_an_error(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if load(folder).device != "cpu":
        pytest.skip("this machine has CUDA")
    with pytest.raises(ModelError, match="CUDA"):
        load(folder, device="cuda")
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_is_no_graph_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    foreign(folder, GRAPH_FILE, b"not a graph")
    with pytest.raises(ModelError, match="can't be loaded by onnxruntime"):
        load(folder, device="cpu")
