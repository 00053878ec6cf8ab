"""What a published folder itself says of its text rule, as sentence-transformers writes it."""

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from hindsight_models.card import CONFIG_FILE
from hindsight_models.errors import ModelError
from hindsight_models.weights import BertConfig, read_json_object

Pooling = Literal["cls", "mean"]

_PLAIN = ("Transformer", "Pooling", "Normalize")
_MODES = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


class Told(NamedTuple):
    """Pooling, None where the folder doesn't say; longest input in tokens."""

    pooling: Pooling | None
    max_tokens: int


def read_told(folder: Path) -> Told:
    """Read what a folder says of itself.

    The longest input is, in this order, that of sentence_bert_config.json, of
    tokenizer_config.json, or the number of positions.

    Raises
    ------
    ModelError
        No config.json, or a pooling, a further layer or a change of texts that is not supported.
    """
    _check_modules(folder / "modules.json")
    _check_texts(folder)
    longest = BertConfig.read(folder / CONFIG_FILE).longest
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        path = folder / name
        said = read_json_object(path).get(key) if path.is_file() else None
        if isinstance(said, int) and 2 < said <= longest:  # 1e30 stands for "not said"
            longest = said
            break
    return Told(_pooling(folder / "1_Pooling" / CONFIG_FILE), longest)


def _pooling(path: Path) -> Pooling | None:
    if not path.is_file():
        return None
    raw = read_json_object(path)
    modes = [mode for mode, key in _MODES.items() if raw.get(key) is True]
    if isinstance(raw.get("pooling_mode"), str):
        modes = [str(raw["pooling_mode"])]
    if modes not in (["cls"], ["mean"]):
        raise ModelError(
            f"{path}: the pooling is {' and '.join(modes) or 'none'}; cls or mean is supported"
        )
    return cast(Pooling, modes[0])


def _check_modules(path: Path) -> None:
    """Refuse a model that does more than pool and normalise what the encoder gives."""
    if not path.is_file():
        return
    try:
        modules: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
        places = [str(module["path"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path} is no list of modules: {error}") from error
    for kind in kinds:
        if kind not in _PLAIN:
            raise ModelError(f"{path}: a layer of kind {kind} is not supported")
    if "Transformer" in kinds and (place := places[kinds.index("Transformer")]):
        raise ModelError(f"{path}: the encoder is in {place}; give that folder as the base")


def _check_texts(folder: Path) -> None:
    """Refuse a model that expects its texts changed beforehand."""
    for name, key in (
        ("sentence_bert_config.json", "do_lower_case"),
        ("config_sentence_transformers.json", "default_prompt_name"),
    ):
        path = folder / name
        said = read_json_object(path).get(key) if path.is_file() else None
        if said:
            raise ModelError(f"{path}: {key} is {said!r}, a change of texts that is not supported")
