"""Fetching from a hub: a real HTTP server on loopback that speaks its protocol."""

import resource
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save_file  # pyright: ignore[reportUnknownVariableType]

from hindsight_models import ModelError
from hindsight_models.fetching.hub import OutOfReach, download
from hindsight_models.fetching.known import HubFolder
from hub_server import Hub, serving
from tiny_model import random_weights, write_config, write_tokenizer

REVISION = "3447645e1def9117997203454fa4495937bfbd83"
FILES = ("config.json", "tokenizer.json", "model.safetensors")
SOURCE = HubFolder("allenai/tiny", REVISION, FILES)


def publish(folder: Path) -> Path:
    """A checkpoint as the hub has it, with files that nobody needs."""
    folder.mkdir(parents=True)
    write_tokenizer(folder / "tokenizer.json")
    write_config(folder / "config.json", 32, 2)
    save_file(random_weights(np.random.default_rng(0), 32, 2), folder / "model.safetensors")
    (folder / "README.md").write_text("not needed")
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hub]:
    """A hub with one model; the library has read the environment already, so its constants."""
    with serving() as server:
        server.folders[SOURCE.repo, REVISION] = publish(tmp_path / "published")
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            server.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
        yield server


def blobs(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache/models--allenai--tiny/blobs").iterdir())


def same(folder: Path, published: Path) -> bool:
    return all((folder / name).read_bytes() == (published / name).read_bytes() for name in FILES)


def test_only_what_is_needed_comes_once_and_the_token_stays_at_the_hub(
    hub: Hub, tmp_path: Path
) -> None:
    seen: list[int] = []
    folder = download(SOURCE, seen.append)
    size = sum((folder / name).stat().st_size for name in FILES)
    assert same(folder, tmp_path / "published") and sum(seen) == size
    assert not hub.asked("README")
    assert all(each["authorization"] == "Bearer hf_secret" for each in hub.asked("/resolve/"))
    assert len(hub.asked("/storage")) == 1
    assert all("authorization" not in each for each in hub.asked("/storage"))
    hub.requests.clear()
    seen.clear()
    assert download(SOURCE, seen.append) == folder
    assert hub.requests == [] and sum(seen) == size


def test_the_cache_is_the_hubs_own(hub: Hub, tmp_path: Path) -> None:
    folder = download(SOURCE)
    hub.requests.clear()
    for name in FILES:
        path = huggingface_hub.hf_hub_download(  # pyright: ignore[reportUnknownMemberType]
            SOURCE.repo, name, revision=REVISION, local_files_only=True
        )
        assert Path(path) == folder / name
    assert hub.requests == []
    assert [path.suffix for path in blobs(tmp_path)] == ["", "", ""]


def test_a_cut_connection_is_taken_up_where_it_broke(hub: Hub, tmp_path: Path) -> None:
    hub.cut = [50_000]
    assert same(download(SOURCE), tmp_path / "published")
    assert "bytes=50000-" in [each.get("range") for each in hub.asked("/storage")]


def test_another_run_goes_on_where_the_last_one_failed(hub: Hub, tmp_path: Path) -> None:
    size = (tmp_path / "published/model.safetensors").stat().st_size
    hub.cut = [50_000] * 20
    stop = Stop(hub, 100_000)
    with pytest.raises(ModelError, match=r"HTTP 503 for model\.safetensors"):
        download(SOURCE, stop)
    (partial,) = (path for path in blobs(tmp_path) if path.suffix)
    kept = partial.stat().st_size
    assert 0 < kept < size
    hub.broken, hub.cut, hub.sent = False, [], 0
    seen: list[int] = []
    assert same(download(SOURCE, seen.append), tmp_path / "published")
    assert hub.sent == size - kept
    assert sum(seen) == sum((tmp_path / "published" / name).stat().st_size for name in FILES)
    assert not [path for path in blobs(tmp_path) if path.suffix]


def test_a_connection_that_stays_cut_is_said_with_what_has_come(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []  # the library waits a second before each retry
    monkeypatch.setattr(time, "sleep", waited.append)
    hub.cut = [50_000, *[0] * 6]
    message = r"broke after 50,000 of [0-9,]+ bytes \(.*\); the same command goes on from there"
    with pytest.raises(ModelError, match=message):
        download(SOURCE)
    assert same(download(SOURCE), tmp_path / "published")
    assert hub.asked("/storage")[-1]["range"] == "bytes=50000-"


def test_two_at_once_download_once(hub: Hub, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(download, [SOURCE, SOURCE]))
    assert all(same(folder, tmp_path / "published") for folder in folders)
    assert hub.sent == (tmp_path / "published/model.safetensors").stat().st_size
    assert not [path for path in blobs(tmp_path) if path.suffix]


class Stop:
    """Breaks the storage once so many bytes have come."""

    def __init__(self, hub: Hub, limit: int) -> None:
        self.hub, self.left = hub, limit

    def __call__(self, more: int) -> None:
        self.left -= more
        self.hub.broken = self.left <= 0


def test_offline_a_filled_cache_is_enough(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        OutOfReach, match=r"HF_HUB_OFFLINE is set, and config\.json of allenai/tiny"
    ):
        download(SOURCE)
    assert hub.requests == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    folder = download(SOURCE)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert download(SOURCE) == folder
    assert hub.requests == []


def test_a_hub_out_of_reach_is_said_at_once(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    began = time.monotonic()
    with pytest.raises(OutOfReach, match=r"config\.json could not be fetched from http"):
        download(SOURCE)
    assert time.monotonic() - began < 5
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ((401, "RepoNotFound"), "has no allenai/tiny, or shows it only to some accounts"),
        ((404, "RepoNotFound"), "has no allenai/tiny, or shows it only to some accounts"),
        ((401, "GatedRepo"), "only to accounts that were granted access; .* set HF_TOKEN"),
        ((403, "GatedRepo"), "only to accounts that were granted access"),
        ((500, ""), r"HTTP 500 for config\.json"),
    ],
)
def test_what_the_hub_refuses_is_said(hub: Hub, refusal: tuple[int, str], message: str) -> None:
    hub.refuse[SOURCE.repo] = refusal
    with pytest.raises(ModelError, match=message):
        download(SOURCE)


def test_what_the_hub_lacks_is_said(hub: Hub) -> None:
    with pytest.raises(
        ModelError, match=r"has no file vocab\.txt in allenai/tiny at revision 3447"
    ):
        download(replace(SOURCE, files=("config.json", "vocab.txt")))
    with pytest.raises(ModelError, match="has no allenai/tiny at revision 000000000000; it was"):
        download(replace(SOURCE, revision="0" * 40))
    with pytest.raises(ModelError, match="has no allenai/other"):
        download(replace(SOURCE, repo="allenai/other"))


def test_another_revision_than_the_pinned_one_is_refused(hub: Hub) -> None:
    hub.commit = "1" * 40
    with pytest.raises(ModelError, match=f"answered with revision {'1' * 40}; expected {REVISION}"):
        download(SOURCE)


def test_other_bytes_than_announced_are_refused_and_gone(hub: Hub, tmp_path: Path) -> None:
    hub.spoilt = True
    with pytest.raises(ModelError, match="another hash"):
        download(SOURCE)
    assert not [path for path in blobs(tmp_path) if path.suffix]
    hub.spoilt = False
    assert same(download(SOURCE), tmp_path / "published")


@pytest.mark.parametrize("tag", ["../../../../outside", "/outside", "abc", "A" * 64])
def test_a_tag_that_is_no_hash_names_no_file(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str
) -> None:
    hub.tag = tag.replace("/outside", f"{tmp_path}/outside") if tag[0] == "/" else tag
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "a/b/cache"))
    with pytest.raises(ModelError, match="expected a hash"):
        download(SOURCE)
    assert {path.name for path in tmp_path.iterdir()} <= {"published", "a"}


def test_more_bytes_than_announced_are_not_kept(hub: Hub, tmp_path: Path) -> None:
    hub.endless = 10_000_000
    with pytest.raises(ModelError, match=r"more than the [0-9,]+ bytes that were announced"):
        download(SOURCE)
    assert max(path.stat().st_size for path in blobs(tmp_path)) < 100_000
    hub.endless = 0
    assert same(download(SOURCE), tmp_path / "published")


def test_a_file_is_announced_once(hub: Hub) -> None:
    download(SOURCE)
    heads = [path for method, path, _ in hub.requests if method == "HEAD"]
    assert len(heads) == len(FILES)


def test_a_damaged_cache_is_found(hub: Hub, tmp_path: Path) -> None:
    path = (download(SOURCE) / "model.safetensors").resolve()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is damaged; remove it"):
        download(SOURCE)
    path.unlink()
    assert same(download(SOURCE), tmp_path / "published")


def test_a_full_disk_is_an_error_of_the_system(hub: Hub) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            download(SOURCE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_cache_that_can_not_be_written_is_an_error_of_the_system(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(NotADirectoryError):
        download(SOURCE)
