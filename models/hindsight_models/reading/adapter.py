"""A published adapter: is it the bottleneck that the graph computes, and its tensors.

The files are those of the adapters library (adapter-transformers before it): adapter_config.json,
and pytorch_adapter.bin or a safetensors file. Only the sequential bottleneck after a layer's
feed-forward block is built (Pfeiffer et al. 2020, arXiv 2005.00247; there ``seq_bn`` or
``pfeiffer``). Every setting that changes what is computed is checked.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from hindsight_models.errors import ModelError
from hindsight_models.reading.layout import adapter_shapes
from hindsight_models.reading.tensors import Tensor, check_tensors
from hindsight_models.weights import BertConfig, read_json_object

ADAPTER_CONFIG = "adapter_config.json"

# Setting: the value that the graph computes, and what the library takes where it is left out.
_NEEDED: Mapping[str, tuple[object, object]] = {
    "architecture": (None, None),
    "mh_adapter": (False, None),
    "output_adapter": (True, None),
    "non_linearity": ("relu", None),
    "original_ln_before": (True, False),
    "original_ln_after": (True, True),
    "residual_before_ln": (True, True),
    "ln_before": (False, False),
    "ln_after": (False, False),
    "is_parallel": (False, False),
    "scaling": (1.0, 1.0),
    "use_gating": (False, False),
    "inv_adapter": (None, None),
    "invertible_adapter": (None, None),
    "cross_adapter": (False, False),
    "leave_out": ([], []),
    "phm_layer": (False, False),
}
# Settings of training, and of parts that the ones above rule out.
_IDLE = {
    *("reduction_factor", "dropout", "stochastic_depth", "init_weights", "init_weights_seed"),
    *("adapter_residual_before_ln", "inv_adapter_reduction_factor"),
    *("phm_dim", "factorized_phm_W", "shared_W_phm", "shared_phm_rule", "factorized_phm_rule"),
    *("phm_c_init", "phm_init_range", "learn_phm", "hypercomplex_nonlinearity"),
    *("phm_rank", "phm_bias"),
}
_KEY = re.compile(
    r"(?:(?:bert|roberta)\.)?(encoder\.layer\.\d+\.output\.adapters\.([^.]+)"
    r"\.adapter_(?:down\.0|up)\.(?:weight|bias))"
)


# Names that the adapters of SPECTER2 give themselves. All are of one shape, so that nothing else
# would tell one from another.
_NAMED: Mapping[str, str] = {
    "[PRX]": "allenai/specter2",
    "[QRY]": "allenai/specter2_adhoc_query",
    "[CLF]": "allenai/specter2_classification",
    "[RGN]": "allenai/specter2_regression",
}


def check_name(name: str, path: Path, wanted: str | None) -> None:
    """Check that an adapter's own name is not that of another known one than `wanted`.

    Raises
    ------
    ModelError
        It is; `path` is the file to blame.
    """
    found = _NAMED.get(name)
    if wanted in _NAMED.values() and found not in (None, wanted):
        raise ModelError(f"{path} is the adapter {name}, {found}; expected that of {wanted}")


class AdapterConfig(NamedTuple):
    """What is left to say of an adapter that the graph computes.

    Attributes
    ----------
    name
        Its own name.
    units
        Units of its bottleneck.
    """

    name: str
    units: int


def read_adapter_config(path: Path, config: BertConfig) -> AdapterConfig:
    """Read adapter_config.json, refusing by name what the graph doesn't compute.

    Raises
    ------
    ModelError
        Another kind of adapter, another setting, or made for another model than `config`'s.
    """
    raw = read_json_object(path)
    if "peft_type" in raw:
        raise ModelError(f"{path} is a PEFT adapter ({raw['peft_type']}); expected a bottleneck")
    for key, ours in (("hidden_size", config.hidden_size), ("model_type", config.model_type)):
        if raw.get(key, ours) != ours:
            raise ModelError(f"{path}: {key} is {raw[key]!r}; the base model's is {ours!r}")
    settings: Any = raw.get("config")
    if not isinstance(settings, dict):
        raise ModelError(f"{path}: config is {settings!r}; expected the adapter's settings")
    _check_settings(path, cast(dict[str, Any], settings))
    factor: Any = cast(dict[str, Any], settings).get("reduction_factor")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor >= 1e-6:
        raise ModelError(f"{path}: reduction_factor is {factor!r}; expected a positive number")
    return AdapterConfig(str(raw.get("name", "")), max(1, int(config.hidden_size // factor)))


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    for key, (needed, default) in _NEEDED.items():
        found = settings.get(key, default)
        if key == "leave_out" and found is None:
            continue
        if found != needed or isinstance(found, bool) != isinstance(needed, bool):
            raise ModelError(f"{path}: {key} is {found!r}; only {needed!r} is supported")
    for key in settings:
        if key not in _NEEDED and key not in _IDLE:
            raise ModelError(f"{path}: {key} is no known setting, and may change the vectors")


def take_adapter(
    tensors: Mapping[str, Tensor], path: Path, config: BertConfig, units: int
) -> dict[str, Tensor]:
    """The adapter's tensors, the model's prefix taken off, every one of them checked.

    Parameters
    ----------
    tensors, path
        What a published file holds, and the file to blame.
    config, units
        Sizes of the base model and of the bottleneck.

    Raises
    ------
    ModelError
        A tensor is missing, of another shape, of no floats, or belongs to no such adapter.
    """
    taken: dict[str, Tensor] = {}
    names: set[str] = set()
    for key, tensor in tensors.items():
        match = _KEY.fullmatch(key)
        if match is None or match[1] in taken:
            raise ModelError(f"{path}: {key} is no tensor of a bottleneck adapter of this model")
        taken[match[1]] = tensor
        names.add(match[2])
    if len(names) != 1:
        raise ModelError(f"{path} holds {len(names)} adapters ({sorted(names)}); expected one")
    shapes = adapter_shapes(config, names.pop(), units)
    check_tensors(taken, shapes, path)
    beyond = sorted(set(taken) - set(shapes))
    if beyond:
        raise ModelError(
            f"{path}: {beyond[0]} is of a layer beyond the base model's {config.num_hidden_layers}"
        )
    return {name: taken[name] for name in shapes}
