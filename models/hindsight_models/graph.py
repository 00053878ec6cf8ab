"""A BERT encoder as an ONNX graph, written straight from a checkpoint; no torch.

Three variants of one computation: standard operators (opset 20), which every engine reads,
onnxruntime's fused ones (com.microsoft), and these in float16. None holds weights: all refer to
the checkpoint's own safetensors file beside them. In float16 the layers' weights go through Cast
nodes, which the engine computes once, at load; embeddings, pooling and the last division stay in
float32.

Inputs ``ids`` and ``mask``, both int32 of shape (n, length), mask 1 for a token and 0 for padding
on the right; output ``vectors``, float32 of shape (n, hidden_size), unit rows.

Layer (Devlin et al. 2018, arXiv 1810.04805; post-norm), x of shape (n * length, hidden_size)::

    a = LN1(x + Wo attention(x))
    h = W2 gelu(W1 a)
    out = LN2(h + a)

With a bottleneck adapter (Pfeiffer et al. 2020, arXiv 2005.00247), LN2 used twice::

    u = up(relu(down(LN2(h + a))))
    out = LN2(u + h + a)
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hindsight_models.errors import ModelError
from hindsight_models.weights import BertConfig, Checkpoint, StoredTensor

_OPSET = 20
_IR_VERSION = 10  # read by every onnxruntime since 1.18
_MASKED = -10_000.0  # added to a padded score; exp of it is exactly 0, also in float16

Pooling = Literal["cls", "mean"]
Variant = Literal["standard", "fused", "half"]


def build_graph(
    config: BertConfig,
    weights: Checkpoint,
    pooling: Pooling,
    *,
    adapter: Checkpoint | None = None,
    variant: Variant = "standard",
) -> onnx.ModelProto:
    """Build the graph; its weights stay where `weights` and `adapter` have them.

    Parameters
    ----------
    config
        Sizes of the encoder.
    weights
        Checkpoint in Hugging Face's BERT layout.
    pooling
        The vector is the first token's row ("cls") or the mean over tokens ("mean").
    adapter
        Checkpoint with a bottleneck adapter for every layer, or None.
    variant
        "standard" operators, onnxruntime's own ("fused"), or these in float16 ("half").

    Raises
    ------
    ModelError
        A tensor is missing or has another shape than the config says.
    """
    writer = _Writer(weights, fused=variant != "standard")
    batch_length = writer.op("Shape", "ids")
    hidden = _embeddings(writer, config)
    if variant == "half":
        hidden = writer.op("Cast", hidden, to=TensorProto.FLOAT16)
        writer.half = True
    masking = _masking(writer)
    for layer in range(config.num_hidden_layers):
        hidden = _layer(writer, config, layer, hidden, batch_length, masking, adapter)
    if variant == "half":
        hidden = writer.op("Cast", hidden, to=TensorProto.FLOAT)
    rows = writer.op(
        "Concat", batch_length, writer.ints([config.hidden_size]), axis=0
    )  # (n, length, hidden_size)
    pooled = _pool(writer, writer.op("Reshape", hidden, rows), pooling)
    writer.op("Div", pooled, _norm(writer, pooled), output="vectors")
    return writer.model(config.hidden_size)


class _Writer:
    """Collects nodes and initializers; values are known by name.

    Attributes
    ----------
    half
        From now on the checkpoint's tensors are cast to float16.
    """

    def __init__(self, weights: Checkpoint, *, fused: bool) -> None:
        self.weights = weights
        self.fused = fused
        self.half = False
        self._cast: set[str] = set()
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}

    def op(
        self, kind: str, *inputs: str, output: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Append a node with one output and return the output's name."""
        name = output or f"{kind}_{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name

    def microsoft(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append one of onnxruntime's own operators."""
        return self.op(kind, *inputs, domain="com.microsoft", **attributes)

    def whole(self, value: int) -> str:
        """Constant int64 scalar."""
        return self._constant(np.array(value, np.int64))

    def ints(self, values: Sequence[int]) -> str:
        """Constant int64 vector."""
        return self._constant(np.array(values, np.int64))

    def float(self, value: float) -> str:
        """Constant float32 scalar."""
        return self._constant(np.array(value, np.float32))

    def _constant(self, array: NDArray[np.int64] | NDArray[np.float32]) -> str:
        name = f"const_{array.dtype}_{'_'.join(str(v) for v in array.ravel())}_{array.ndim}"
        self._initializers.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def tensor(self, key: str, *shape: int, source: Checkpoint | None = None) -> str:
        """Initializer whose numbers stay in the checkpoint's file, or its float16 copy."""
        checkpoint = self.weights if source is None else source
        if key not in checkpoint:
            raise ModelError(f"{checkpoint.path}: no tensor {key}; is it a BERT checkpoint?")
        stored = checkpoint[key]
        if stored.shape != shape:
            raise ModelError(
                f"{checkpoint.path}: {key} has shape {stored.shape}; the config says {shape}"
            )
        self._initializers.setdefault(key, _external(key, stored))
        if not self.half:
            return key
        copy = f"{key}.half"
        if copy not in self._cast:
            self._cast.add(self.op("Cast", key, output=copy, to=TensorProto.FLOAT16))
        return copy

    def dense(
        self, x: str, prefix: str, out: int, into: int, *, source: Checkpoint | None = None
    ) -> str:
        """x W^T + b of a checkpoint's linear layer."""
        return self.op(
            "Gemm",
            x,
            self.tensor(f"{prefix}.weight", out, into, source=source),
            self.tensor(f"{prefix}.bias", out, source=source),
            transB=1,
        )

    def model(self, dim: int) -> onnx.ModelProto:
        """Everything collected, as a model."""
        tokens = ["n", "length"]
        graph = helper.make_graph(
            self._nodes,
            "encoder",
            [helper.make_tensor_value_info(n, TensorProto.INT32, tokens) for n in ("ids", "mask")],
            [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["n", dim])],
            list(self._initializers.values()),
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        if self.fused:
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(
            graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="hindsight_models"
        )


def _external(name: str, stored: StoredTensor) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=stored.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (
        ("location", stored.file),
        ("offset", str(stored.offset)),
        ("length", str(stored.length)),
    ):
        tensor.external_data.add(key=key, value=value)
    return tensor


def _embeddings(w: _Writer, config: BertConfig) -> str:
    dim, table = config.hidden_size, "embeddings.{}_embeddings.weight"
    words = w.op("Gather", w.tensor(table.format("word"), config.vocab_size, dim), "ids")
    length = w.op("Shape", "ids", start=1, end=2)
    positions = w.tensor(table.format("position"), config.max_position_embeddings, dim)
    first = w.ints([config.first_position])
    end = w.op("Add", length, first) if config.first_position else length
    added = w.op("Slice", positions, first, end, w.ints([0]))
    if config.type_vocab_size:  # every token is of type 0: texts are one sequence
        types = w.tensor(table.format("token_type"), config.type_vocab_size, dim)
        added = w.op("Add", added, w.op("Slice", types, w.ints([0]), w.ints([1]), w.ints([0])))
    total = w.op("Add", words, added)
    flat = w.op("Reshape", total, w.ints([-1, dim]))
    return _norm_layer(w, config, "embeddings.LayerNorm", flat)


def _masking(w: _Writer) -> str:
    """What tells attention about padding, made once for all layers.

    Standard: 0 for tokens and a large negative number for padding, shape (n, 1, 1, length).
    Fused: the mask itself. Half: int32 of shape (3 n + 2,), each text's tokens, then where texts
    start and the last one ends, for queries and again for keys. That is the only form for which
    onnxruntime has, on every GPU, an attention that never writes the scores to memory; it leaves
    padding out instead of adding a number to it.
    """
    if not w.fused:
        mask = w.op("Cast", "mask", to=TensorProto.FLOAT)
        padding = w.op("Mul", w.op("Sub", w.float(1.0), mask), w.float(_MASKED))
        return w.op("Unsqueeze", padding, w.ints([1, 2]))
    if not w.half:
        return "mask"
    tokens = w.op("ReduceSum", "mask", w.ints([1]), keepdims=0)
    n, length = (w.op("Squeeze", w.op("Shape", "mask", start=i, end=i + 1)) for i in (0, 1))
    end = w.op("Mul", w.op("Add", n, w.whole(1)), length)
    starts = w.op("Cast", w.op("Range", w.whole(0), end, length), to=TensorProto.INT32)
    return w.op("Concat", tokens, starts, starts, axis=0)


def _layer(
    w: _Writer,
    config: BertConfig,
    layer: int,
    x: str,
    batch_length: str,
    masking: str,
    adapter: Checkpoint | None,
) -> str:
    prefix, dim = f"encoder.layer.{layer}", config.hidden_size
    attended = _attention(w, config, f"{prefix}.attention.self", x, batch_length, masking)
    projected = w.dense(attended, f"{prefix}.attention.output.dense", dim, dim)
    a = _norm_layer(w, config, f"{prefix}.attention.output.LayerNorm", projected, x)
    inner = w.dense(a, f"{prefix}.intermediate.dense", config.intermediate_size, dim)
    gelu = w.microsoft("Gelu", inner) if w.fused else w.op("Gelu", inner)
    h = w.dense(gelu, f"{prefix}.output.dense", dim, config.intermediate_size)
    if adapter is None:
        return _norm_layer(w, config, f"{prefix}.output.LayerNorm", h, a)
    total = w.op("Add", h, a)
    normed = _norm_layer(w, config, f"{prefix}.output.LayerNorm", total)
    u = _bottleneck(w, layer, dim, normed, adapter)
    return _norm_layer(w, config, f"{prefix}.output.LayerNorm", u, total)


def _bottleneck(w: _Writer, layer: int, dim: int, x: str, adapter: Checkpoint) -> str:
    down = adapter.adapter_key(layer, "adapter_down.0.weight").removesuffix(".weight")
    up = adapter.adapter_key(layer, "adapter_up.weight").removesuffix(".weight")
    units = adapter[f"{down}.weight"].shape[0]
    narrow = w.op("Relu", w.dense(x, down, units, dim, source=adapter))
    return w.dense(narrow, up, dim, units, source=adapter)


def _attention(
    w: _Writer, config: BertConfig, prefix: str, x: str, batch_length: str, masking: str
) -> str:
    dim, heads, size = config.hidden_size, config.num_attention_heads, config.head_size
    q, k, v = (w.dense(x, f"{prefix}.{part}", dim, dim) for part in ("query", "key", "value"))
    if w.fused:
        shape = w.op("Concat", batch_length, w.ints([dim]), axis=0)
        parts = (w.op("Reshape", part, shape) for part in (q, k, v))
        context = w.microsoft(
            "MultiHeadAttention", *parts, "", masking, num_heads=heads, mask_filter_value=_MASKED
        )
        return w.op("Reshape", context, w.ints([-1, dim]))
    shape = w.op("Concat", batch_length, w.ints([heads, size]), axis=0)
    q, k, v = (w.op("Reshape", part, shape) for part in (q, k, v))
    q = w.op("Transpose", q, perm=[0, 2, 1, 3])
    k = w.op("Transpose", k, perm=[0, 2, 3, 1])
    v = w.op("Transpose", v, perm=[0, 2, 1, 3])
    scores = w.op("Mul", w.op("MatMul", q, k), w.float(size**-0.5))
    shares = w.op("Softmax", w.op("Add", scores, masking), axis=-1)
    context = w.op("Transpose", w.op("MatMul", shares, v), perm=[0, 2, 1, 3])
    return w.op("Reshape", context, w.ints([-1, dim]))


def _norm_layer(w: _Writer, config: BertConfig, key: str, x: str, residual: str = "") -> str:
    """Layer normalisation of x, or of x + residual."""
    parts = [w.tensor(f"{key}.{name}", config.hidden_size) for name in ("weight", "bias")]
    if w.fused and residual:
        return w.microsoft(
            "SkipLayerNormalization", x, residual, *parts, epsilon=config.layer_norm_eps
        )
    total = w.op("Add", x, residual) if residual else x
    return w.op("LayerNormalization", total, *parts, axis=-1, epsilon=config.layer_norm_eps)


def _pool(w: _Writer, hidden: str, pooling: Pooling) -> str:
    """(n, length, hidden_size) to (n, hidden_size)."""
    if pooling == "cls":
        first = w.op("Slice", hidden, w.ints([0]), w.ints([1]), w.ints([1]))
        return w.op("Squeeze", first, w.ints([1]))
    # A sum will do, since only its direction counts. As a product, because a reduction adds up in
    # another order when there is more than one text, and a text's vector would depend on that.
    mask = w.op("Cast", w.op("Unsqueeze", "mask", w.ints([1])), to=TensorProto.FLOAT)
    return w.op("Squeeze", w.op("MatMul", mask, hidden), w.ints([1]))


def _norm(w: _Writer, pooled: str) -> str:
    return w.op("ReduceL2", pooled, w.ints([1]), keepdims=1)
