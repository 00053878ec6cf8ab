"""BERT's tokenizer from vocab.txt alone, and a tokenizer.json as tokenizer_config.json corrects it.

It does what BERT's own tokenizer does (Devlin et al. 2018, github.com/google-research/bert): clean,
lower-case and strip accents where the model is uncased, split at spaces, punctuation and CJK
characters, then the longest pieces of the vocabulary.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import WordPiece as Pieces
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from hindsight_models.errors import ModelError
from hindsight_models.weights import read_json_object

_MAX_VOCABULARY = 50_000_000  # bytes
_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}

# Of tokenizer_config.json, and what BERT's normaliser calls it.
_SETTINGS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def tokenizer_from_vocabulary(path: Path, config: Path) -> Tokenizer:
    """BERT's tokenizer from vocab.txt, and from tokenizer_config.json where it is there.

    Raises
    ------
    ModelError
        The vocabulary can't be read or lacks a special token, or the config is of another kind of
        tokenizer.
    """
    raw = _read_settings(config)
    kind = str(raw.get("tokenizer_class", "BertTokenizer"))
    if kind.removesuffix("Fast") not in ("BertTokenizer", "DistilBertTokenizer"):
        raise ModelError(f"{config}: tokenizer_class is {kind!r}; give its tokenizer.json")
    words = _read(path)
    special = {role: _content(raw.get(role) or token) for role, token in _SPECIAL.items()}
    for token in special.values():
        if token not in words:
            raise ModelError(f"{path}: no token {token}, which BERT's tokenizer needs")
    tokenizer = Tokenizer(WordPiece(words, unk_token=special["unk_token"]))
    tokenizer.add_special_tokens(  # pyright: ignore[reportUnknownMemberType]
        [AddedToken(token, special=True, normalized=False) for token in special.values()]
    )
    tokenizer.normalizer = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=raw.get("tokenize_chinese_chars") is not False,
        strip_accents=raw.get("strip_accents"),
        lowercase=raw.get("do_lower_case") is not False,
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    first, last = special["cls_token"], special["sep_token"]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(first, words[first]), (last, words[last])],
    )
    tokenizer.decoder = Pieces()
    return tokenizer


def corrected(tokenizer: Tokenizer, config: Path) -> bool:
    """Let tokenizer_config.json have the last word on case and accents, as in transformers.

    Only BERT's own normaliser is changed; returns whether it was.

    Raises
    ------
    ModelError
        The config can't be read.
    """
    # None, or an object with its class and settings
    normalizer: dict[str, Any] = json.loads(tokenizer.to_str())["normalizer"] or {}
    if normalizer.pop("type", None) != "BertNormalizer":
        return False
    raw = _read_settings(config)
    said = {name: raw[key] for key, name in _SETTINGS.items() if raw.get(key) is not None}
    if normalizer == normalizer | said:
        return False
    tokenizer.normalizer = BertNormalizer(**(normalizer | said))
    return True


def _read_settings(config: Path) -> dict[str, Any]:
    """tokenizer_config.json, empty where there is none."""
    raw = read_json_object(config) if config.is_file() else {}
    for key in _SETTINGS:
        if not isinstance(raw.get(key), bool | None):
            raise ModelError(f"{config}: {key} is {raw[key]!r}; expected true or false")
    return raw


def _read(path: Path) -> dict[str, int]:
    """Token to id: the number of its line, the last one where a token comes twice."""
    try:
        if path.stat().st_size > _MAX_VOCABULARY:
            raise ModelError(f"{path} has {path.stat().st_size} bytes; no vocabulary has as many")
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8: {error}") from error
    if lines[-1] == "":
        lines.pop()
    return {token: line for line, token in enumerate(lines)}


def _content(token: Any) -> str:
    """A special token's text; published files write it plainly or as an object."""
    if isinstance(token, Mapping):
        token = cast(Mapping[str, Any], token).get("content")
    return str(token)
