"""Make the small files of tests/io/golden with the Python libraries safetensors, torch and gguf.

  usage   python tools/goldens_files.py [FOLDER]      (default: tests/io/golden)

  dtypes.safetensors    a tensor of every dtype torch has here, values that stress the conversion
  dtypes.f32            what torch's .float() makes of each, one after another in bytewise order of names
  saved.safetensors     what save_file writes for the tensors that test_safetensors.c writes too: the bytes must be equal
  types.gguf            metadata of every kind; a tensor of every type that is read: blocks of random bits, and quantised values
  types.f32             gguf.dequantize of each, one after another in the order of the file
  types.txt             ggml's table: number, name, elements of a block, bytes of a block
  vocab.gguf            metadata without tensors
  split-0000?-of-00003.gguf   five tensors in three files

The numbers come from fixed seeds, so a second run makes the same bytes.
"""
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

Q = gguf.GGMLQuantizationType


def dtypes(folder):
    tensors = {
        "bool": torch.tensor([True, False, True]),
        "u8": torch.tensor([0, 1, 255], dtype=torch.uint8),
        "i8": torch.tensor([-128, -1, 127], dtype=torch.int8),
        "i16": torch.tensor([-32768, 32767], dtype=torch.int16),
        "i32": torch.tensor([[-2**31, 2**31 - 1], [2**24 + 1, -7]], dtype=torch.int32),
        "i64": torch.tensor([-2**63, 2**63 - 1, 2**24 + 1], dtype=torch.int64),
        "f16": torch.arange(-2**15, 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)[::37].clone(),
        "bf16": torch.tensor([1.0, -3.25, 1e38, float("inf"), -float("inf"), 1e-3], dtype=torch.bfloat16),
        "f32": torch.tensor([[[1.5]], [[-2.75]]]),
        "f64": torch.tensor([1 / 3, -1e30, 16777217.0], dtype=torch.float64),
        "f8_e4m3": torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn),
        "f8_e5m2": torch.arange(256, dtype=torch.uint8).view(torch.float8_e5m2),
        "u16": torch.tensor([0, 65535], dtype=torch.uint16),
        "u32": torch.tensor([2**32 - 1, 2**24 + 1], dtype=torch.uint32),
        "u64": torch.tensor([2**64 - 1, 2**40 + 2**16 - 1], dtype=torch.uint64),
        "scalar": torch.tensor(42.0),
        "empty": torch.empty(2, 0, 3),
        "naïve.名前": torch.tensor([5.0]),
    }
    save_file(tensors, folder / "dtypes.safetensors", metadata={"note": "every dtype"})   # one key: their order is not fixed
    names = sorted(tensors, key=lambda n: n.encode())
    (folder / "dtypes.f32").write_bytes(b"".join(tensors[n].float().contiguous().numpy().tobytes() for n in names))


def saved(folder):
    save_file({
        "a.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "b.weight": torch.arange(5, dtype=torch.float32).to(torch.bfloat16),
        "c.count": torch.tensor(7, dtype=torch.int64),
        "d.bias": torch.tensor([0.5, -0.5]),
        "e.empty": torch.empty(0, 4),
    }, folder / "saved.safetensors", metadata={"format": "pt"})


# Where the halves of a block that scale it are; blocks of random bits get every finite one, denormals and the largest included.
SCALES_AT = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0], Q.Q2_K: [80, 82], Q.Q3_K: [108],
             Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208], Q.IQ4_NL: [0], Q.IQ4_XS: [0], Q.TQ1_0: [52], Q.TQ2_0: [64],
             Q.MXFP4: [], Q.NVFP4: []}
EXTREME = np.array([0x7BFF, 0xFBFF, 0x0001, 0x8001, 0x03FF, 0x0400, 0x0000, 0x8000], dtype=np.uint16)


def random_blocks(rng, kind, rows, columns):
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * columns // elems, size), dtype=np.uint8)
    for at in SCALES_AT[kind]:
        scales = rng.integers(0, 2**16, len(blocks)).astype(np.uint16)
        scales &= np.where((scales & 0x7C00) == 0x7C00, 0x83FF, 0xFFFF).astype(np.uint16)
        extreme = rng.permutation(EXTREME)[: len(blocks) // 2]
        scales[: len(extreme)] = extreme
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(rows, -1)


def types(folder):
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(folder / "types.gguf", "llama")
    w.add_uint8("a.uint8", 255)
    w.add_int8("a.int8", -128)
    w.add_uint16("a.uint16", 65535)
    w.add_int16("a.int16", -32768)
    w.add_uint32("a.uint32", 2**32 - 1)
    w.add_int32("a.int32", -2**31)
    w.add_uint64("a.uint64", 2**64 - 1)
    w.add_int64("a.int64", -2**63)
    w.add_float32("a.float32", 1.5)
    w.add_float64("a.float64", 0.1)
    w.add_bool("a.bool", True)
    w.add_string("a.string", "grün")
    w.add_array("a.strings", ["", "one", "Ġtwo", "three\n"])
    w.add_array("a.ints", [1, -2, 3])
    w.add_array("a.floats", [0.5, -1.25])
    w.add_array("a.bools", [True, False, True])
    expected = []

    def add(name, data, kind):
        w.add_tensor(name, data, raw_dtype=kind)
        expected.append(np.asarray(gguf.dequantize(data, kind), dtype=np.float32))

    values = rng.standard_normal((3, 64)).astype(np.float32)
    for kind in (Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0):
        add(f"bits.{kind.name}", random_blocks(rng, kind, 3, 64), kind)
        add(f"values.{kind.name}", gguf.quantize(values, kind), kind)
    for kind in (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS, Q.TQ1_0, Q.TQ2_0, Q.MXFP4, Q.NVFP4):
        add(f"bits.{kind.name}", random_blocks(rng, kind, 4, 512), kind)
    add("f32", values, Q.F32)
    add("f16", values[:, :5].astype(np.float16), Q.F16)
    add("bf16", gguf.quantize(values, Q.BF16), Q.BF16)
    for name, data in (("i8", np.array([-128, 127], np.int8)), ("i16", np.array([-32768, 5], np.int16)),
                       ("i32", np.array([[2**24 + 1, -9]], np.int32)), ("i64", np.array([2**40 + 1], np.int64)),
                       ("f64", np.array([1 / 3, -1e30], np.float64))):
        w.add_tensor(name, data)
        expected.append(data.astype(np.float32))
    w.add_tensor("four", np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2))
    expected.append(np.arange(24, dtype=np.float32))
    w.add_tensor("listed", rng.integers(0, 256, (1, 66), dtype=np.uint8), raw_dtype=Q.IQ2_XXS)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    (folder / "types.f32").write_bytes(b"".join(e.tobytes() for e in expected))
    rows = [f"{int(t)} {t.name} {elems} {size}\n" for t, (elems, size) in gguf.GGML_QUANT_SIZES.items()]
    (folder / "types.txt").write_text("".join(rows))


def vocab(folder):
    w = gguf.GGUFWriter(folder / "vocab.gguf", "gpt2")
    w.add_token_list(["a", "b", "ab"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def split(folder):
    w = gguf.GGUFWriter(folder / "split.gguf", "llama", split_max_tensors=2)
    w.add_name("in three files")
    for i, name in enumerate(("c", "a", "e", "b", "d")):
        w.add_tensor(name, np.full((2, 4), i, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    to = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/io/golden")
    to.mkdir(parents=True, exist_ok=True)
    for make in (dtypes, saved, types, vocab, split):
        make(to)
