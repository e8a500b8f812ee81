#!/usr/bin/env python3
"""Have llama.cpp itself load the files of `reprise export`, and compare its logits with those of libreprise in fp32.

    check_llamacpp.py BUILD [--model FILE.gguf] [--adapter FOLDER] [--fp32] [WORD ...]     needs llama-cpp-python 0.3.36 and numpy

Exports every golden model and adapter, and MODEL (default: models/smollm2.gguf) with ADAPTER, and prints a line for each file. Of golden models
that `export` refuses it prints the reason. WORD: only lines that have it.

llama.cpp runs with a KV cache in fp32, without flash attention and without repacked weights (whose AMX code crashes in this version). Limits:

    F32             of the largest difference of any logit: 1e-3; with GELU, which llama.cpp reads from a table in fp16: 5e-3
    F16             of the mean KL divergence of the next token: 1e-5. llama.cpp rounds the other operand of each product to fp16, too
    other types     the same: 1e-2. llama.cpp rounds the other operand to bf16, or to blocks of 8 bits

Ours are the logits of the exported model if the file is F32, else of the file itself, read in fp32. An adapter alone lies over an F32 base.
Texts for Phi-3 end with its window, which llama.cpp ignores. llama.cpp must also make the tokens of `reprise tokenize`. Exit 1: a line is
beyond its limit, or a family is missing.

--fp32: LLAMA_CPP_LIB_PATH has a llama.cpp that computes in fp32 (docs/howto/gguf.md says how to build it). Then the limit of F32 and F16 files is 1e-3,
and no other type is compared.
"""
import argparse
import ctypes
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import llama_cpp as ll
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
FAMILIES = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text", "phi3", "olmo2", "gpt2"}
CHANGES = {"gemma2": {"query_pre_attn_scalar": 12}, "gemma3_text": {"query_pre_attn_scalar": 12, "sliding_window_pattern": 6}}   # what llama.cpp computes
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
TEXT = ROOT / "docs" / "design.md"
TOKENS = 256
GELU = 5e-3                             # of families whose activation it is
LIMITS = {"F32": (1e-3, 1), "F16": (1, 1e-5)}       # of logits and of KL
OTHERS = (float("inf"), 1e-2)
FP32 = (1e-3, 1)                        # --fp32


# ---- ours ----

class Meta(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_int), ("dim", ctypes.c_int64 * 5)]


class Ours:
    """libreprise, with the logits of models in fp32."""

    def __init__(self, build):
        self.lib, self.ctx = ctypes.CDLL(build / "libreprise.so"), ctypes.c_void_p()
        self.lib.rp_error.restype = ctypes.c_char_p
        self.lib.rp_tensor_meta.restype = ctypes.POINTER(Meta)
        self.check(self.lib.rp_ctx_new_sized(ctypes.c_size_t(0), None, ctypes.byref(self.ctx)))
        self.lib.rp_set_train(self.ctx, False)
        self.check(self.lib.rp_set_grad(self.ctx, False))

    def check(self, status):
        if status:
            sys.exit(f"check_llamacpp: {self.lib.rp_error(self.ctx).decode()}")

    def logits(self, path, ids):
        """None: the model cannot be loaded."""
        model, tokens, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        meta = Meta(2, 2, (ctypes.c_int64 * 5)(1, len(ids)))
        if self.lib.rp_model_load_sized(ctypes.c_size_t(0), self.ctx, str(path).encode(), None, ctypes.byref(model)):
            return None
        self.check(self.lib.rp_tensor_new(self.ctx, ctypes.byref(meta), 4, ctypes.byref(tokens)))
        self.check(self.lib.rp_tensor_write_i32(tokens, (ctypes.c_int32 * len(ids))(*ids), ctypes.c_int64(len(ids))))
        self.check(self.lib.rp_model_logits(model, tokens, ctypes.byref(out)))
        shape = self.lib.rp_tensor_meta(out).contents.dim
        got = np.empty((shape[1], shape[2]), dtype=np.float64)
        self.check(self.lib.rp_tensor_read(out, got.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(got.size)))
        for tensor in (tokens, out):
            self.lib.rp_tensor_unref(tensor)
        self.lib.rp_model_free(model)
        return got


# ---- theirs ----

@ll.llama_log_callback
def be_quiet(level, text, user):
    pass


def open_theirs(path):
    options = ll.llama_model_default_params()
    options.use_extra_bufts = False
    model = ll.llama_model_load_from_file(str(path).encode(), options)
    if not model:
        sys.exit(f"check_llamacpp: llama.cpp does not load '{path}'")
    return model


def context_for(model, n):
    options = ll.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = max(n, 32)
    options.type_k = options.type_v = ll.GGML_TYPE_F32
    options.flash_attn_type = ll.LLAMA_FLASH_ATTN_TYPE_DISABLED
    return ll.llama_init_from_model(model, options)


def add_adapter(model, ctx, path):
    adapter = ll.llama_adapter_lora_init(model, str(path).encode())
    if not adapter:
        sys.exit(f"check_llamacpp: llama.cpp does not load the adapter '{path}'")
    if ll.llama_set_adapters_lora(ctx, (ll.llama_adapter_lora_p_ctypes * 1)(adapter), 1, (ctypes.c_float * 1)(1.0)):
        sys.exit(f"check_llamacpp: llama.cpp does not set the adapter '{path}'")


def logits_of_theirs(path, ids, adapter=None):
    model = open_theirs(path)
    ctx, batch = context_for(model, len(ids)), ll.llama_batch_init(len(ids), 0, 1)
    if adapter:
        add_adapter(model, ctx, adapter)
    batch.n_tokens = len(ids)
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, True
        batch.seq_id[i][0] = 0
    if ll.llama_decode(ctx, batch):
        sys.exit(f"check_llamacpp: llama.cpp does not compute '{path}'")
    vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    out = np.ctypeslib.as_array(ll.llama_get_logits(ctx), shape=(len(ids), vocab)).astype(np.float64)
    ll.llama_batch_free(batch)
    ll.llama_free(ctx)
    ll.llama_model_free(model)
    return out


def tokens_of_theirs(path, text):
    model, room = open_theirs(path), (ctypes.c_int32 * (len(text) + 8))()
    n = ll.llama_tokenize(ll.llama_model_get_vocab(model), text, len(text), room, len(room), False, False)
    ll.llama_model_free(model)
    return list(room[:n])


# ---- cases ----

def log_softmax(x):
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


class Check:
    def __init__(self, build, scratch, words, fp32):
        self.build, self.scratch, self.words, self.fp32 = build, scratch, words, fp32
        self.ours, self.good, self.seen = Ours(build), True, 0

    def wanted(self, line):
        return all(word in line for word in self.words) and (not self.fp32 or line.split()[-1] in ("F32", "F16"))

    def export(self, source, kind, *more):
        """The exported file, and the error message if the model is refused."""
        to = self.scratch / "out.gguf" if "--adapter" not in more else self.scratch / "adapter.gguf"
        done = subprocess.run([self.build / "reprise", "export", source, "--gguf", kind, "-o", to, *more], capture_output=True, text=True)
        if done.returncode not in (0, 2):
            sys.exit(f"check_llamacpp: {done.stderr}")
        return to, done.stderr.splitlines()[-1].removeprefix("reprise export: ") if done.returncode else None

    def line(self, name, kind, ours, theirs):
        off = np.abs(ours - theirs).max()
        p, q = log_softmax(ours), log_softmax(theirs)
        kl = (np.exp(p) * (p - q)).sum(axis=1).mean()
        most = FP32 if self.fp32 else (GELU, 1) if kind == "F32" and re.search("gpt2|gemma", name) else LIMITS.get(kind, OTHERS)
        good = off <= most[0] and kl <= most[1]
        self.good, self.seen = self.good and bool(good), self.seen + 1
        print(f"{name:28} {kind:5} {np.abs(ours).max():8.2f} {off:10.1e} {kl:10.1e}  {'' if good else 'beyond the limit'}", flush=True)

    def model(self, name, source, ids, kinds):
        """Returns the reason if the model cannot be exported."""
        for kind in kinds:
            if not self.wanted(f"{name} {kind}"):
                continue
            path, refused = self.export(source, kind)
            if refused:
                return refused
            ours = self.ours.logits(source if kind == "F32" else path, ids)
            if ours is not None:
                self.line(name, kind, ours, logits_of_theirs(path, ids))
        return None

    def adapter(self, name, folder, base, ids, kinds):
        """The adapter alone over an F32 base; then merged."""
        alone, refused = self.export(folder, "F32", "--adapter")
        if not refused and self.wanted(f"{name} over F32"):
            path, _ = self.export(base, "F32")
            self.line(f"{name} over F32", "F32", self.ours.logits(folder, ids), logits_of_theirs(path, ids, alone))
        self.model(f"{name} merged", folder, ids, kinds)


def golden_folder(variant, scratch):
    """Family and folder of the golden model, with some changes of its config; tokens of its texts."""
    folder, to = GOLDEN / "models" / variant, scratch / variant
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    to.mkdir(exist_ok=True)
    (to / "config.json").write_text(json.dumps(config | CHANGES.get(config["model_type"], {})), encoding="utf-8")
    for file in folder.glob("model*"):
        if not (to / file.name).exists():
            (to / file.name).symlink_to(file)
    return config["model_type"], to, min(config.get("sliding_window") or 24, 24) if config["model_type"] == "phi3" else 24


def check_goldens(check):
    ids = [(i * i * 7 + i * 3 + 5) % 96 for i in range(24)]
    families, refused = set(), []
    for variant in sorted(p.name for p in (GOLDEN / "models").iterdir() if p.is_dir()):
        family, folder, n = golden_folder(variant, check.scratch)
        reason = check.model(variant, folder, ids[:n], TYPES[:5])
        families |= {family} if not reason else set()
        refused += [(variant, reason)] if reason else []
    for name in sorted(p.parent.name for p in (GOLDEN / "lora").glob("*/adapter_config.json")):
        folder = GOLDEN / "lora" / name
        base = folder / json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
        check.adapter(f"adapter {name}", folder, base, ids, ["F32"])
    for variant, reason in refused:
        print(f"{variant}: refused: {reason}")
    if not check.words and FAMILIES - families:
        sys.exit(f"check_llamacpp: no model of {', '.join(sorted(FAMILIES - families))}")


def check_real(check, model, adapter):
    text = TEXT.read_bytes()
    run = subprocess.run([check.build / "reprise", "tokenize", model, "--json"], input=text, capture_output=True, check=True)
    all_ids = json.loads(run.stdout)
    copy, _ = check.export(model, "keep")
    same = all_ids == tokens_of_theirs(copy, text)
    check.good = check.good and same
    print(f"{model.name}: {len(all_ids)} tokens of {TEXT.name}: {'the same' if same else 'other tokens'}; logits of the first {TOKENS}")
    ids = all_ids[:TOKENS]
    check.model(model.name, model, ids, ["keep", *TYPES])
    if adapter:
        check.adapter("its adapter", adapter, model, ids, ["F32", "F16", "Q8_0", "keep"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("word", nargs="*")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "smollm2.gguf")
    parser.add_argument("--fp32", action="store_true", help="llama.cpp computes in fp32: compare F32 and F16 files alone, with a limit of 1e-3")
    parser.add_argument("--adapter", type=pathlib.Path, help="the folder of an adapter on MODEL, such as `make demo` leaves")
    args = parser.parse_args()
    ll.llama_log_set(be_quiet, None)
    ll.llama_backend_init()
    print(f"{'file':28} {'type':5} {'largest':>8} {'off by':>10} {'mean KL':>10}     llama-cpp-python {ll.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        check = Check(args.build.resolve(), pathlib.Path(scratch), args.word, args.fp32)
        check_goldens(check)
        check_real(check, args.model.resolve(), args.adapter)
    print(f"{check.seen} files: {'all within their limits' if check.good else 'some are beyond their limits'}")
    return 0 if check.good else 1


if __name__ == "__main__":
    sys.exit(main())
