"""Models by the command line: fetched from a hub on loopback, exported by hand, held against
published vectors."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hindsight_fast import load_encoder
from hindsight_fast.against import compare_with_published
from hindsight_fast.errors import DataError, EncoderError, UsageError
from hindsight_fast.model_export import TextRule, export_model
from hindsight_fast.model_folders import find_model, known_models, verify_model
from hindsight_models import KNOWN, Card, Hub, load
from hub_server import Hub as Server
from hub_server import serving
from published_files import publish_adapter, publish_base
from tiny_model import tiny_model, write_config

Run = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_base(tmp_path_factory.mktemp("published") / "base")


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    return publish_adapter(base.parent / "adapter")


@pytest.fixture
def hub(base: Path, adapter: Path) -> Generator[Server]:
    """A hub that has SPECTER2's names and revisions, with tiny files."""
    source = KNOWN["specter2"].source
    assert isinstance(source, Hub) and source.adapter is not None
    with serving() as server:
        server.folders[source.base.repo, source.base.revision] = base
        server.folders[source.adapter.repo, source.adapter.revision] = adapter
        yield server


def environment(folder: Path, **changes: str) -> dict[str, str]:
    changes = {"HF_HOME": str(folder / "hf"), "HINDSIGHT_HOME": str(folder / "home"), **changes}
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "HF_TOKEN": "", **changes}


def run(folder: Path, *command: str, **changes: str) -> Run:
    return subprocess.run(
        [sys.executable, "-m", "hindsight_fast", *command],
        env=environment(folder, **changes),
        text=True,
        timeout=120,
        check=False,
        capture_output=True,
    )


def test_get_fetches_exports_and_proves_and_later_needs_no_network(
    hub: Server, tmp_path: Path
) -> None:
    done = run(tmp_path, "models", "get", "specter2", "--json", HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    assert "fetching specter2 (444 MB, once)" in done.stderr
    folder = Path(json.loads(done.stdout)["folder"])
    assert folder == tmp_path / "home/models/specter2"
    card = Card.read(folder)
    assert (card.theta, card.separator, card.max_tokens, card.pooling) == (
        0.96,
        "[SEP]",
        512,
        "cls",
    )
    assert card.published_as == ("specter_v2",) and len(card.golden) >= 8
    assert card.sources["base"].endswith("@3447645e1def9117997203454fa4495937bfbd83")
    assert card.sources["adapter"].endswith("@2081559630a80fc5851d8f798a05ba81e9468089")
    assert card.sources["adapter/pytorch_adapter.bin"].startswith("sha256:")
    assert not hub.asked("README")
    hub.requests.clear()
    offline = {"HF_HUB_OFFLINE": "1", "HINDSIGHT_HOME": str(tmp_path / "other")}
    done = run(tmp_path, "models", "get", "specter2", **offline)
    assert done.returncode == 0, done.stderr
    assert Card.read(tmp_path / "other/models/specter2") == card
    assert hub.requests == []


def test_a_killed_download_is_continued(hub: Server, base: Path, tmp_path: Path) -> None:
    hub.stall = 100_000
    # The hub's library reads 10 MB at a time; a tiny file has less.
    code = (
        "import sys; from huggingface_hub import constants; constants.DOWNLOAD_CHUNK_SIZE = 5000; "
        "from hindsight_fast.cli import main; sys.argv[1:] = ['models', 'get', 'specter2']; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment(tmp_path, HF_ENDPOINT=hub.url)
    )
    deadline = time.monotonic() + 60
    while not (partial := list(tmp_path.glob("hf/hub/*/blobs/*.incomplete"))) or (
        partial[0].stat().st_size < 80_000
    ):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "home/models/specter2").exists()
    kept, hub.stall, hub.sent = partial[0].stat().st_size, None, 0
    done = run(tmp_path, "models", "get", "specter2", HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    assert hub.sent == (base / "pytorch_model.bin").stat().st_size - kept
    assert sorted(path.name for path in (tmp_path / "home/models").iterdir()) == ["specter2"]


def test_no_network_is_a_sentence_with_the_manual_way(tmp_path: Path) -> None:
    began = time.monotonic()
    done = run(tmp_path, "models", "get", "specter2", HF_ENDPOINT="http://127.0.0.1:9")
    assert time.monotonic() - began < 20
    assert done.returncode == 4 and done.stdout == ""
    told = done.stderr
    assert "config.json could not be fetched from http://127.0.0.1:9" in told
    for part in (
        "pytorch_model.bin from http://127.0.0.1:9/allenai/specter2_base/tree/3447645e1def",
        "pytorch_adapter.bin from http://127.0.0.1:9/allenai/specter2/tree/2081559630a8",
        "`hindsight-fast models export specter2 --base BASE --adapter ADAPTER`",
    ):
        assert part in told
    assert "Traceback" not in told


def test_every_verb_that_needs_specter2_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path))
    for need in (find_model, verify_model, load_encoder):
        with pytest.raises(EncoderError) as caught:
            need("specter2")
        for part in (
            "`hindsight-fast models get specter2` fetches it (444 MB, once)",
            "https://huggingface.co/allenai/specter2/tree/2081559630a80fc5851d8f798a05ba81e9468089",
            "models export specter2 --base BASE --adapter ADAPTER`",
        ):
            assert part in str(caught.value)


def test_files_brought_by_hand_make_the_model_where_get_would(
    base: Path, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("models", "export", "specter2", "--base", str(base), "--adapter", str(adapter))
    done = run(tmp_path, *command, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["made"] and summary["folder"] == str(tmp_path / "home/models/specter2")
    assert summary["sources"]["adapter/name"] == "[PRX]" and summary["theta"] == 0.96
    assert "base" not in summary["sources"]  # nothing is claimed of where the files came from
    got = run(tmp_path, "models", "get", "specter2", HF_ENDPOINT="http://127.0.0.1:9")
    assert got.returncode == 0 and "already" in got.stdout
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    assert [one["name"] for one in known_models() if one["installed"]] == ["specter2"]


# Export ------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HINDSIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_adapters_give_other_vectors_and_names_keep_apart(
    home: Path, base: Path, adapter: Path
) -> None:
    specter2 = export_model("specter2", base, adapter=adapter).folder
    plain = export_model("specter2-base", base).folder
    query = publish_adapter(base.parent / "query", 2, "[QRY]")
    adhoc = export_model("specter2-adhoc", base, adapter=query).folder
    vectors = [
        load(folder, device="cpu").encode([("a graph", "the data")])[0]
        for folder in (specter2, plain, adhoc)
    ]
    assert vectors[0] @ vectors[1] < 0.999
    assert vectors[0] @ vectors[2] < 0.999
    for name, other in (("specter2", query), ("specter2-adhoc", adapter)):
        with pytest.raises(EncoderError, match="expected that of allenai/specter2"):
            export_model(name, base, base.parent / "other", adapter=other)
    cards = [Card.read(folder) for folder in (specter2, plain, adhoc)]
    assert [card.published_as for card in cards] == [("specter_v2",), (), ()]
    assert "not calibrated" in cards[1].theta_note and "not calibrated" in cards[2].theta_note
    assert len({card.fingerprint() for card in cards}) == 3
    assert verify_model("specter2-base")["n_golden"] >= 8


def test_what_is_there_and_the_same_stays_anything_else_needs_overwrite(
    home: Path, base: Path, adapter: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    assert export_model("specter2", base, out, adapter=adapter) == (out, True)
    before = (out / "card.json").stat().st_mtime_ns
    assert export_model("specter2", base, out, adapter=adapter) == (out, False)
    assert (out / "card.json").stat().st_mtime_ns == before
    with pytest.raises(UsageError, match=r"already holds another model, .* --overwrite"):
        export_model("specter2-base", base, out)
    assert Card.read(out).name == "specter2"
    assert export_model("specter2-base", base, out, overwrite=True) == (out, True)
    assert Card.read(out).name == "specter2-base"
    (out / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"also holds notes\.txt"):
        export_model("specter2-base", base, out, overwrite=True)
    with pytest.raises(UsageError, match="is no model of ours"):
        export_model("specter2-base", base, base.parent, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_refused_export_leaves_what_was_there(
    home: Path, base: Path, adapter: Path, tmp_path: Path
) -> None:
    out = export_model("specter2", base, tmp_path / "model", adapter=adapter).folder
    broken = tmp_path / "broken"
    shutil.copytree(base, broken)
    (broken / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    with pytest.raises(EncoderError, match=r"pytorch_model\.bin"):
        export_model("specter2", broken, out, adapter=adapter, overwrite=True)
    assert Card.read(out).name == "specter2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "model"]


@pytest.mark.parametrize(
    ("name", "with_adapter", "rule", "message"),
    [
        ("specter2", False, TextRule(), "specter2 takes --adapter with the files of allenai/spec"),
        ("specter2-base", True, TextRule(), "specter2-base takes no --adapter"),
        ("specter2-base", False, TextRule(theta=0.5), "--theta: known of specter2-base"),
        ("minilm", False, TextRule(), "`hindsight-fast models get minilm` makes minilm"),
        ("mine", False, TextRule(), "--theta is needed"),
        ("mine", False, TextRule(theta=1.5), "--theta 1.5: a number from -1 to 1"),
        ("mine", False, TextRule(theta=0.5), "--pooling cls or mean is needed"),
        ("../up", False, TextRule(theta=0.5), "is no name for a model"),
    ],
)
def test_a_fact_that_lacks_or_contradicts_is_refused(
    home: Path,
    base: Path,
    adapter: Path,
    name: str,
    with_adapter: bool,
    rule: TextRule,
    message: str,
) -> None:
    with pytest.raises(UsageError, match=message):
        export_model(name, base, adapter=adapter if with_adapter else None, rule=rule)
    assert not home.exists() or not list(home.glob("models/*"))


def test_a_folder_tells_its_text_rule(home: Path, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    shutil.copytree(base, folder)
    (folder / "1_Pooling").mkdir()
    pooling: dict[str, Any] = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 1e30}')
    model = export_model("mine", folder, rule=TextRule(theta=0.7)).folder
    card = Card.read(model)
    assert (card.pooling, card.max_tokens, card.separator, card.theta) == ("mean", 512, " ", 0.7)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 128}')
    rule = TextRule(theta=0.7, separator=". ")
    card = Card.read(export_model("mine", folder, rule=rule, overwrite=True).folder)
    assert (card.max_tokens, card.separator) == (128, ". ")
    with pytest.raises(UsageError, match="says mean"):
        export_model("mine", folder, rule=TextRule(theta=0.7, pooling="cls"))
    pooling["pooling_mode_max_tokens"] = True
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    with pytest.raises(EncoderError, match="the pooling is mean and max"):
        export_model("mine", folder, rule=TextRule(theta=0.7))
    for file, said, message in (
        ("modules.json", [{"path": "2", "type": "sentence_transformers.models.Dense"}], "Dense"),
        ("modules.json", [{"path": "0_BERT", "type": "x.Transformer"}], "give that folder"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is True"),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "is 'query'"),
    ):
        (folder / file).write_text(json.dumps(said))
        with pytest.raises(EncoderError, match=message):
            export_model("mine", folder, rule=TextRule(theta=0.7))
        (folder / file).unlink()
    (folder / "modules.json").write_text("[" * 100_000)
    with pytest.raises(EncoderError, match="is no list of modules"):
        export_model("mine", folder, rule=TextRule(theta=0.7))
    (folder / "modules.json").unlink()
    write_config(folder / "config.json", 32, 2, model_type="gpt2")
    with pytest.raises(EncoderError, match="model_type is 'gpt2'"):
        export_model("mine", folder, rule=TextRule(theta=0.7))


# Published vectors -------------------------------------------------------------------------------

PAPERS = [
    ("a1", "Graph learning", "The <i>neural</i> model &amp; the data."),
    ("b2", "A title alone", None),
    ("c3", "Language of images", "No abstract available"),
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), pooling="cls", adapter=True)


@pytest.fixture(scope="module")
def vectors(tiny: Path) -> list[list[float]]:
    """The model's own vectors of the cleaned texts, not unit, as they are published."""
    texts = [
        ("Graph learning", "The neural model & the data."),
        ("A title alone", ""),
        ("Language of images", ""),
    ]
    found = load(tiny, device="cpu").encode(texts) * 22
    return [[round(value, 5) for value in row] for row in found.tolist()]


def records(vectors: list[list[float]]) -> list[dict[str, Any]]:
    return [
        {"paper_id": paper, "title": title, "abstract": abstract, "vector": vector}
        for (paper, title, abstract), vector in zip(PAPERS, vectors, strict=True)
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        path.write_text(lines)
    return path


def test_published_vectors_in_every_form_agree(
    tiny: Path, vectors: list[list[float]], tmp_path: Path
) -> None:
    encoder = load_encoder(tiny, device="cpu")
    rows = records(vectors)
    pl.DataFrame(rows).write_parquet(tmp_path / "list.parquet")
    write_lines(tmp_path / "text.jsonl.gz", [{**row, "vector": str(row["vector"])} for row in rows])
    api = [
        {
            "paperId": row["paper_id"],
            "title": row["title"],
            "abstract": row["abstract"],
            "embedding": {"model": "tiny_v1", "vector": row["vector"]},
        }
        for row in rows
    ]
    write_lines(tmp_path / "api.jsonl", [*api, {"paperId": "d4", "title": "No vector"}])
    for name in ("list.parquet", "text.jsonl.gz", "api.jsonl"):
        found = compare_with_published(encoder, tmp_path / name)
        assert found.agreement.same_model and found.agreement.n == 3
        assert found.n_skipped == (1 if name == "api.jsonl" else 0)
        assert found.agreement.cosine_min > 0.99999
        assert found.norm_mean == pytest.approx(22, abs=0.01)
        assert {paper for paper, _ in found.worst} == {"a1", "b2", "c3"}
    assert compare_with_published(encoder, tmp_path / "list.parquet", limit=2).agreement.n == 2


def test_vectors_of_another_model_are_refused(
    tiny: Path, vectors: list[list[float]], tmp_path: Path
) -> None:
    rows = records(vectors)
    rows[1]["vector"] = [*rows[1]["vector"][1:], 3.0]
    write_lines(tmp_path / "other.jsonl", rows)
    done = run(
        tmp_path,
        "models",
        "verify",
        str(tiny),
        "--against",
        str(tmp_path / "other.jsonl"),
        "--json",
    )
    assert done.returncode == 4
    assert "were not made by" in done.stderr and "at least 0.999 is expected" in done.stderr
    against = json.loads(done.stdout)["against"]
    assert against["agrees"] is False and against["worst"][0][0] == "b2"
    encoder = load_encoder(tiny, device="cpu")
    rows[1]["vector"] = [1.0]
    with pytest.raises(EncoderError, match=r"record 2: the vector has 1 numbers; .* have 32"):
        compare_with_published(encoder, write_lines(tmp_path / "short.jsonl", rows))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vector": "[1, x]"}, "record 1: the vector is no list of numbers"),
        ({"vector": [0.0] * 32}, "record 1: the vector is zero"),
        ({"vector": None}, "none of 1 records has both a title and a vector"),
        ({"title": ""}, "none of 1 records has both a title and a vector"),
    ],
)
def test_what_is_no_published_vector_is_said(
    tiny: Path, vectors: list[list[float]], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [{**records(vectors)[0], **change}])
    with pytest.raises(DataError, match=message):
        compare_with_published(load_encoder(tiny, device="cpu"), path)


def test_a_record_that_names_another_model_is_refused(
    home: Path, base: Path, adapter: Path, vectors: list[list[float]], tmp_path: Path
) -> None:
    encoder = load_encoder(export_model("specter2", base, adapter=adapter).folder, device="cpu")
    row = {**records(vectors)[0], "model": "specter@v0.1.1"}
    with pytest.raises(EncoderError, match=r"of the model 'specter@v0\.1\.1'; .* as specter_v2"):
        compare_with_published(encoder, write_lines(tmp_path / "rows.jsonl", [row]))


def test_real_published_vectors_are_not_a_tiny_models(shared: Path, tiny: Path) -> None:
    path = shared / "data/vectors/specter_v2_43.parquet"
    with pytest.raises(EncoderError, match="has 768 numbers; those of tiny have 32"):
        compare_with_published(load_encoder(tiny, device="cpu"), path)
