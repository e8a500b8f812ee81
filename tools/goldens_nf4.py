#!/usr/bin/env python3
"""goldens_nf4.py -- a small Llama whose linear layers bitsandbytes has quantised to NF4, and what it dequantises them to.

    DIR/bin/python tools/goldens_nf4.py [OUT]        OUT: tests/golden

writes OUT/nf4/{config.json, model.safetensors}: o_proj has fp32 scales, the other layers have quantised ones; and OUT/nf4.safetensors: of three
layers the original weights and the dequantised ones, in fp32. Needs torch, safetensors and bitsandbytes.
"""
import json
import pathlib
import sys

import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from safetensors.torch import save_file

HIDDEN, INNER, VOCAB = 64, 320, 32
SHAPES = {"self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN // 2, HIDDEN), "self_attn.v_proj": (HIDDEN // 2, HIDDEN),
          "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
KEPT = ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj")
CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 64, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 0, "torch_dtype": "float32",
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
                            "bnb_4bit_compute_dtype": "float32", "bnb_4bit_quant_storage": "uint8"},
}


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden")
    torch.manual_seed(11)
    model, plain = {}, {}
    for name, shape in SHAPES.items():
        full = f"model.layers.0.{name}.weight"
        weight = torch.randn(shape) * 0.05 * torch.rand(shape[0], 1)
        codes, state = quantize_4bit(weight, blocksize=64, compress_statistics=name != "self_attn.o_proj", quant_type="nf4")
        model[full] = codes
        for part, value in state.as_dict(packed=True).items():
            model[f"{full}.{part}"] = value
        if name in KEPT:
            plain[f"{name}.original"] = weight
            plain[f"{name}.dequantised"] = dequantize_4bit(codes, state)
    for name in ("model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm", "model.norm"):
        model[f"{name}.weight"] = 1 + 0.1 * torch.randn(HIDDEN)
    model["model.embed_tokens.weight"] = torch.randn(VOCAB, HIDDEN)
    model["lm_head.weight"] = torch.randn(VOCAB, HIDDEN) * 0.1
    (out / "nf4").mkdir(exist_ok=True)
    save_file(model, out / "nf4/model.safetensors", metadata={"format": "pt"})
    save_file({k: v.contiguous() for k, v in plain.items()}, out / "nf4.safetensors")
    (out / "nf4/config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")


if __name__ == "__main__":
    main()
