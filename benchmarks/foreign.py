"""Other engines on a model folder's own weights: torch with the adapters library, int64 ONNX."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from hindsight_models.card import ADAPTER_FILE, GRAPH_FILE

INT64_FILE = "model.int64.onnx"
_INPUTS = {"ids": "input_ids", "mask": "attention_mask"}  # ours and other engines' names


def foreign_tokenizer(folder: Path, max_tokens: int) -> None:
    """Write beside tokenizer.json what other libraries read about it."""
    tokens = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | tokens))


def torch_bert(folder: Path) -> Any:
    """The folder's checkpoint as a transformers BertModel, its adapter active where it has one."""
    transformers: Any = import_module("transformers")
    model = transformers.BertModel.from_pretrained(str(folder))
    activate_adapter(model, folder)
    return model.eval()


def activate_adapter(model: Any, folder: Path) -> None:
    """Put the folder's adapter, if it has one, into a BertModel by the adapters library.

    Raises
    ------
    RuntimeError
        A tensor of the adapter found no place in the model.
    """
    if not (folder / ADAPTER_FILE).exists():
        return
    adapters: Any = import_module("adapters")
    read: Any = import_module("safetensors.torch").load_file
    tensors = {k.removeprefix("bert."): v for k, v in read(folder / ADAPTER_FILE).items()}
    name = next(iter(tensors)).split(".adapters.")[1].split(".")[0]
    adapters.init(model)
    model.add_adapter(name, config="seq_bn", set_active=True)
    unplaced = model.load_state_dict(tensors, strict=False).unexpected_keys
    if unplaced:
        raise RuntimeError(f"the adapters library has no place for {unplaced[:3]}")


def int64_graph(folder: Path) -> Path:
    """Write the graph with the input names and widths that other engines send; same weights."""
    model = onnx.ModelProto.FromString((folder / GRAPH_FILE).read_bytes())
    for value in model.graph.input:
        casted = helper.make_node("Cast", [_INPUTS[value.name]], [value.name], to=TensorProto.INT32)
        model.graph.node.insert(0, casted)
        value.name = _INPUTS[value.name]
        value.type.tensor_type.elem_type = TensorProto.INT64
    path = folder / INT64_FILE
    path.write_bytes(model.SerializeToString())
    return path
