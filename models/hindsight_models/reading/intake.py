"""Published files into a model folder: read, checked, brought into the one form that we keep."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer

from hindsight_models.card import ADAPTER_FILE, CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE
from hindsight_models.errors import ModelError
from hindsight_models.folder import sha256_of
from hindsight_models.reading.adapter import (
    ADAPTER_CONFIG,
    check_name,
    read_adapter_config,
    take_adapter,
)
from hindsight_models.reading.layout import encoder_shapes, plain_name
from hindsight_models.reading.tensors import (
    Tensor,
    check_finite,
    check_tensors,
    open_safetensors,
    write_float32,
)
from hindsight_models.reading.torch_file import open_torch
from hindsight_models.reading.vocabulary import corrected, tokenizer_from_vocabulary
from hindsight_models.weights import BertConfig, Checkpoint

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADAPTERS = ("adapter.safetensors", "model.safetensors", "pytorch_adapter.bin")
_VOCABULARY, _TOKENIZER_CONFIG = "vocab.txt", "tokenizer_config.json"
_BUFFERS = {"embeddings.position_ids", "embeddings.token_type_ids"}


def take_base(base: Path, out: Path) -> dict[str, str]:
    """Bring config, weights and tokenizer of a published checkpoint into the folder `out`.

    Returns
    -------
    dict
        SHA-256 of every file that was used, as "base/NAME": "sha256:HEX".

    Raises
    ------
    ModelError
        A file is missing, damaged, holds something else, or is of another architecture.
    """
    used = [base / CONFIG_FILE]
    config = BertConfig.read(base / CONFIG_FILE)
    shutil.copyfile(base / CONFIG_FILE, out / CONFIG_FILE)
    used.append(_take_weights(base, out / WEIGHTS_FILE, config))
    used += _take_tokenizer(base, out / TOKENIZER_FILE, config)
    return _hashes("base", used)


def take_adapter_folder(
    adapter: Path, out: Path, wanted: str | None = None
) -> tuple[str, dict[str, str]]:
    """Bring a published adapter into the folder `out`, which has its base model's config.

    `wanted` is the one that it has to be, where that is known.

    Returns
    -------
    str, dict
        The adapter's own name, and the hashes of its files.

    Raises
    ------
    ModelError
        A file is missing or damaged, or it is another adapter than the graph computes.
    """
    config = BertConfig.read(out / CONFIG_FILE)
    name, units = read_adapter_config(adapter / ADAPTER_CONFIG, config)
    check_name(name, adapter / ADAPTER_CONFIG, wanted)
    path = _one_of(adapter, _ADAPTERS)
    tensors = take_adapter(_open(path), path, config, units)
    check_name(next(iter(tensors)).split(".")[5], path, wanted)  # what the weights say
    write_float32(out / ADAPTER_FILE, tensors)
    return name, _hashes("adapter", [adapter / ADAPTER_CONFIG, path])


def _take_weights(base: Path, target: Path, config: BertConfig) -> Path:
    path = _one_of(base, _WEIGHTS)
    tensors: dict[str, Tensor] = {}
    for name, tensor in _open(path).items():
        if tensors.setdefault(plain_name(name), tensor) is not tensor:
            raise ModelError(f"{path}: two tensors are called {plain_name(name)}")
    shapes = encoder_shapes(config)
    check_tensors(tensors, shapes, path)
    for name in tensors:
        # Heads may be left behind; a part of the encoder may not.
        inside = name.startswith(("embeddings.", "encoder."))
        if inside and name not in shapes and name not in _BUFFERS:
            raise ModelError(f"{path}: {name} is no part of the model that config.json tells")
    needed = {name: tensors[name] for name in shapes}
    if _is_ours(path, tensors, shapes):
        check_finite(needed)
        shutil.copyfile(path, target)
    else:
        write_float32(target, needed)
    return path


def _is_ours(
    path: Path, tensors: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether the graph can refer to the published file as it is."""
    if path.suffix != ".safetensors" or any(tensors[n].dtype != "float32" for n in shapes):
        return False
    return set(shapes) <= set(Checkpoint(path))


def _take_tokenizer(base: Path, target: Path, config: BertConfig) -> list[Path]:
    path, vocabulary, settings = (
        base / name for name in (TOKENIZER_FILE, _VOCABULARY, _TOKENIZER_CONFIG)
    )
    used = [path if path.is_file() else vocabulary]
    if path.is_file():
        tokenizer = _read_tokenizer(path)
        if corrected(tokenizer, settings):
            tokenizer.save(str(target))
        else:
            shutil.copyfile(path, target)
    elif vocabulary.is_file():
        tokenizer = tokenizer_from_vocabulary(vocabulary, settings)
        tokenizer.save(str(target))
    else:
        raise ModelError(f"{base} has neither {TOKENIZER_FILE} nor {_VOCABULARY}")
    if settings.is_file():
        used.append(settings)
    ids = tokenizer.get_vocab().values()
    if max(ids, default=0) >= config.vocab_size:
        raise ModelError(
            f"{used[0]} has tokens up to {max(ids)}; config.json says {config.vocab_size} tokens"
        )
    return used


def _read_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise ModelError(f"{path} is not a tokenizer: {error}") from error


def _open(path: Path) -> dict[str, Tensor]:
    return open_safetensors(path) if path.suffix == ".safetensors" else open_torch(path)


def _one_of(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
        if (folder / f"{name}.index.json").is_file():
            raise ModelError(
                f"{folder} has its weights in several files ({name}.index.json); load them with "
                "torch, and save them as one model.safetensors"
            )
    raise ModelError(f"{folder} has none of {', '.join(names)}")


def _hashes(role: str, paths: Sequence[Path]) -> dict[str, str]:
    return {f"{role}/{path.name}": f"sha256:{sha256_of(path)}" for path in paths}
