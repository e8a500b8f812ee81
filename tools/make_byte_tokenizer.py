#!/usr/bin/env python3
"""Write recipes/tiny_llama/tokenizer.json: byte-level, one token a byte and no merges, <|end|> (256) after a document."""
import json
import sys

# GPT-2's printable stand-in of each byte: itself where it prints, else the next free code point from 256 on.
prints = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
stand_in, free = {}, 256
for byte in range(256):
    if byte in prints:
        stand_in[byte] = chr(byte)
    else:
        stand_in[byte], free = chr(free), free + 1

json.dump({
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": 256, "content": "<|end|>", "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True}],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
              "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
              "vocab": {stand_in[b]: b for b in range(256)} | {"<|end|>": 256}, "merges": []},
}, sys.stdout, ensure_ascii=False, indent=1)
print()
