"""What a GPU reaches: precisions, token budgets, bound buffers, batches in flight.

    python -m benchmarks.gpu [--seconds 5] [--json out.json]

A model of SPECTER2's exact shape with random weights is made here, and texts of random words with
the lengths of abstracts, so that nothing is fetched and nothing else is needed. One setting is
varied at a time. Batches are planned and tokenised beforehand but for the last row, which is the
whole pipeline; every shape is computed once before any timing. Quality: the largest distance of a
sample of vectors to those of the CPU in float32. Exit code 4, with a sentence, where no GPU can be
used.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from benchmarks.measure import machine, table, write_json
from benchmarks.shape import CONFIG, adapter_shapes, bert_shapes, random_tensor
from hindsight_models import Card, Encoder, ModelError, load
from hindsight_models.batches import CUDA_TOKENS, padding_share
from hindsight_models.card import (
    ADAPTER_FILE,
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
)
from hindsight_models.engines import open_float32
from hindsight_models.export import Facts, export
from hindsight_models.running import Runners
from hindsight_models.session import CudaSession, check_cuda
from hindsight_models.tokenizing import Tokenizer as OurTokenizer
from hindsight_models.weights import BertConfig

Pairs = list[tuple[str, str]]
SETTINGS: list[dict[str, Any]] = [
    {"precision": "float16", "tokens": CUDA_TOKENS, "bound": True, "in_flight": 2},
    {"tokens": 8192},
    {"tokens": 16_384},
    {"tokens": 65_536},
    {"tokens": 131_072},
    {"bound": False},
    {"in_flight": 1},
    {"in_flight": 3},
    {"precision": "float32"},
    {"precision": "float32", "bound": False},
]
_WORDS = 1000  # in the vocabulary; the table of the model has SPECTER2's size all the same
_SAMPLE = 12


def random_model(folder: Path) -> Path:
    """Write a model folder of SPECTER2's exact shape, adapter included; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).write_text(CONFIG)
    config, rng = BertConfig.read(folder / CONFIG_FILE), np.random.default_rng(0)
    for name, shapes in (
        (WEIGHTS_FILE, bert_shapes(config)),
        (ADAPTER_FILE, adapter_shapes(config)),
    ):
        save_file(
            {key: random_tensor(rng, key, shape) for key, shape in shapes.items()}, folder / name
        )
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = [*special, *(f"w{i}" for i in range(_WORDS))]
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / TOKENIZER_FILE))
    note = "Random weights have no meaningful theta."
    sources = {"weights": "random, seed 0"}
    export(folder, Facts("random-specter2", "cls", " ", 512, 0.96, note, sources, "bottleneck"))
    return folder


def random_texts(lengths: NDArray[np.int64], seed: int = 0) -> Pairs:
    """Texts of random words with these numbers of tokens, [CLS] and [SEP] included."""
    rng = np.random.default_rng(seed)
    return [("", " ".join(_drawn(rng, n - 2))) for n in lengths.tolist()]


def _drawn(rng: np.random.Generator, count: int) -> list[str]:
    numbers: list[int] = rng.integers(0, _WORDS, count).tolist()
    return [f"w{number}" for number in numbers]


def abstract_lengths(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Lengths in tokens as those of titles with abstracts: mean 225, standard deviation 75."""
    drawn = np.random.default_rng(seed).normal(225, 75, count)
    return np.clip(drawn, 10, 512).astype(np.int64)


class Measured:
    """A model, its texts, and what the CPU makes of a sample of them."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.folder, self.seconds, self.card = folder, seconds, Card.read(folder)
        self.lengths = abstract_lengths(4096)
        self.texts = random_texts(self.lengths)
        tokenizer = OurTokenizer(folder / TOKENIZER_FILE, self.card)
        start = time.perf_counter()
        self.ids = [t.ids for t in tokenizer.many(self.texts, parallel=True)]
        self.tokenising = self.lengths.sum() / (time.perf_counter() - start)
        cpu = load(folder, device="cpu", precision="float32")
        self.expected = cpu.encode(self.texts[:_SAMPLE])

    def row(self, precision: str, tokens: int, bound: bool, in_flight: int) -> dict[str, Any]:
        """One setting: batches on the GPU and nothing else."""
        session = CudaSession(self.folder, self.card, 0, precision, bound=bound)
        exact = partial(open_float32, self.folder, self.card, gpu_mem=None)
        runners = Runners(
            [session], exact, threads=1, longest=512, in_flight=in_flight, tokens=tokens
        )
        runners.warm_up()
        sample = self.ids[:_SAMPLE]
        vectors = np.empty_like(self.expected)
        for batch in runners.plan([len(ids) for ids in sample]):
            vectors[batch.members] = runners.run(batch, sample)[0]
        plan = runners.plan(self.lengths.tolist())
        run = partial(runners.run, ids=self.ids)
        done, start = 0, time.perf_counter()
        with ThreadPoolExecutor(runners.count) as pool:
            while time.perf_counter() - start < self.seconds:
                list(pool.map(run, plan))
                done += 1
        took = time.perf_counter() - start
        return {
            "precision": precision,
            "token budget": tokens,
            "budget left": runners.tokens,
            "bound": bound,
            "in flight": in_flight,
            "ktokens/s": done * self.lengths.sum() / took / 1e3,
            "texts/s": done * len(self.lengths) / took,
            "padding": padding_share(plan, self.lengths.tolist()),
            "memory MB": memory_used_mb(),
            "distance to CPU": float(np.linalg.norm(vectors - self.expected, axis=1).max()),
        }

    def pipeline(self) -> dict[str, Any]:
        """The encoder as it is used, on every GPU: texts in, vectors out."""
        encoder: Encoder = load(self.folder, device="cuda")
        encoder.warm_up()
        encoded = encoder.encode_counted(self.texts[:_SAMPLE])
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            encoder.encode(self.texts)
            done += 1
        took = time.perf_counter() - start
        apart = np.linalg.norm(encoded.vectors - self.expected, axis=1)
        return {
            "devices": encoder.device,
            "precision": encoder.precision,
            "ktokens/s": done * self.lengths.sum() / took / 1e3,
            "texts/s": done * len(self.texts) / took,
            "retried": int(encoded.retried.sum()),
            "distance to CPU": float(apart.max()),
            "tokenising alone, ktokens/s": self.tokenising / 1e3,
        }


def memory_used_mb() -> int | None:
    """Memory in use on the first GPU, by nvidia-smi; None where it is not installed."""
    told = _nvidia_smi("memory.used")
    return int(told) if told else None


def _nvidia_smi(what: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    query = [program, "-i", "0", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of timing for each row")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    try:
        count = check_cuda()
    except ModelError as error:
        sys.stderr.write(f"benchmarks.gpu: no GPU can be used: {error}\n")
        raise SystemExit(4) from None
    with tempfile.TemporaryDirectory() as place:
        measured = Measured(random_model(Path(place) / "model"), asked.seconds)
        rows = [measured.row(**{**SETTINGS[0], **changes}) for changes in SETTINGS]
        print(table(rows), flush=True)
        whole = measured.pipeline()
        print(table([whole]))
    facts = machine("onnxruntime-gpu", "numpy", "tokenizers")
    gpu = {"gpu": _nvidia_smi("name,driver_version"), "gpus": count}
    write_json(asked.json, {"machine": facts | gpu, "settings": rows, "pipeline": whole})


if __name__ == "__main__":
    main()
