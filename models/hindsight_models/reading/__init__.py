"""Published files of a checkpoint, in the forms that they come in, read and checked.

`intake` brings them into a model folder. Tensors (`tensors`) come as safetensors, as what
torch.save writes (`torch_file`, `pickled`) or in a quantised graph (`onnx_weights`); `layout` says
which there must be, `adapter` what an adapter may be, `vocabulary` makes tokenizers, `told` reads
pooling and longest input.
"""
