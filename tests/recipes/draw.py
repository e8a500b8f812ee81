"""What random recipes are drawn from: tables of models, data, training and ways of checkpointing, and a function for each.

A recipe is a flat map {"optimizer.lr": 0.01, …}; keys that begin with "#" are for the claims and stand in no file.
"""
import gzip
import json
import pathlib
import random
import struct

ABSENT = object()                       # the key is left out: its default holds
BOOL = (False, True)


class Draw(random.Random):
    def one(self, *values):
        return values[self.randrange(len(values))]

    def chance(self, p):
        return self.random() < p

    def table(self, table):
        """A value for each key of {key: values}."""
        drawn = {key: self.one(*values) for key, values in table.items()}
        return {key: value for key, value in drawn.items() if value is not ABSENT}


# ---- models ----

HEAD_DIM = {"head_dim": (ABSENT, 2, 6, 16)}
WIDE     = {"head_dim": (2, 6, 16)}         # where the default is that of large models
WINDOW   = {"sliding_window": (None, 1, 3, 7, 40)}
TIED     = {"tie_word_embeddings": BOOL}
BIAS     = {"attention_bias": BOOL}
ROPE     = {"rope_theta": (100.0, 10000.0), "rope_scaling": (
    ABSENT, None, {"rope_type": "linear", "factor": 4.0}, {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16}, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 12})}
QWEN     = {"use_sliding_window": BOOL, "sliding_window": (3, 7), "max_window_layers": (0, 1, 2)}
GEMMA    = {"query_pre_attn_scalar": (4, 10), "final_logit_softcapping": (None, 2.0), "hidden_activation": ("gelu_pytorch_tanh",), "sliding_window": (3, 7)}
EXPERTS  = {"num_experts_per_tok": (1, 2), "output_router_logits": BOOL, "router_aux_loss_coef": (0.02, 0.3)}
DROPOUT  = (0.0, 0.1, 0.5)

DECODERS = {                            # beside the sizes that all of them have
    "llama": {**HEAD_DIM, **TIED, **BIAS, **ROPE, "mlp_bias": BOOL},
    "mistral": {**HEAD_DIM, **TIED, **ROPE, **WINDOW},
    "qwen2": {**TIED, **ROPE, **QWEN},
    "qwen3": {**HEAD_DIM, **TIED, **BIAS, **ROPE, **QWEN},
    "gemma2": {**WIDE, **TIED, **BIAS, **GEMMA, "attn_logit_softcapping": (None, 1.5)},
    "gemma3_text": {**WIDE, **TIED, **BIAS, **GEMMA, "sliding_window_pattern": (1, 2, 3)},
    "phi3": {**TIED, **WINDOW, "partial_rotary_factor": (1.0, 0.5), "resid_pdrop": DROPOUT, "original_max_position_embeddings": (64,)},
    "olmo2": {**TIED, **ROPE},
    "qwen3_moe": {**HEAD_DIM, **TIED, **ROPE, **EXPERTS, "num_experts": (2, 5), "moe_intermediate_size": (1, 12), "norm_topk_prob": BOOL,
                  "mlp_only_layers": ([], [0]), "decoder_sparse_step": (1, 2)},
    "mixtral": {**TIED, **ROPE, **WINDOW, **EXPERTS, "num_local_experts": (2, 5)},
}
GPT2 = {"activation_function": ("gelu_new", "relu", "gelu", "silu"), "n_inner": (None, 7, 50), "embd_pdrop": DROPOUT, "attn_pdrop": DROPOUT,
        "resid_pdrop": DROPOUT, "scale_attn_by_inverse_layer_idx": BOOL, **TIED}
BERT = {"hidden_act": ("gelu", "relu"), "type_vocab_size": (1, 2), "hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT}
LAYERS, HEADS, CONTEXT = (1, 2, 2, 3, 5), (1, 2, 3, 4, 6), 64


def gpt2(r):
    heads = r.one(*HEADS)
    return {"n_embd": heads * r.randint(1, 9), "n_head": heads, "n_layer": r.one(*LAYERS), "n_positions": CONTEXT, **r.table(GPT2)}


def bert(r):
    heads = r.one(*HEADS)
    return {"hidden_size": heads * r.randint(1, 9), "num_attention_heads": heads, "num_hidden_layers": r.one(*LAYERS),
            "intermediate_size": r.randint(1, 50), "max_position_embeddings": CONTEXT, **r.table(BERT)}


def decoder(r, family):
    heads = r.one(*HEADS)
    more  = r.table(DECODERS[family])
    width = heads * r.randint(1, 8) * (1 if "head_dim" in more else 4 if family == "phi3" else 2)      # heads that are turned are of an even size
    return {"hidden_size": width,
            "intermediate_size": r.randint(1, 60), "num_hidden_layers": r.one(*LAYERS), "num_attention_heads": heads,
            "num_key_value_heads": r.one(*(k for k in range(1, heads + 1) if heads % k == 0)), "max_position_embeddings": CONTEXT, **more}


def model(r, vocab):
    family = r.one("gpt2", "bert", *DECODERS)
    sizes  = gpt2(r) if family == "gpt2" else bert(r) if family == "bert" else decoder(r, family)
    return {"model_type": family, "vocab_size": vocab, "initializer_range": 0.05, "bos_token_id": 1, "eos_token_id": 0, **sizes}


# ---- data ----

WORDS = "the quick brown fox jumps over a lazy dog's back, été 雨 42\n".split(" ")


def text(r, length):
    out = ""
    while len(out.encode()) < length:
        out += r.one(*WORDS) + r.one(" ", " ", "\n")
    return out


def lengths(r, length, samples, packed, full):
    """Of documents, which make so many samples: packed, or one each."""
    if packed:
        out, left = [], length * samples + r.randint(0, length)
        while left > 0:
            out.append(min(left, r.one(1, 2, length, 3 * length, left)))
            left -= out[-1]
        return out
    return [r.randint(length, length + 5) if full else r.randint(2, length + 5) for _ in range(samples)]


def write_files(r, folder, name, contents, extension):
    """The contents as files of one folder, some of them below it: what the recipe calls them, a glob, a folder or a list."""
    below = pathlib.Path(folder, name)
    below.mkdir()
    paths = []
    for i, content in enumerate(contents):
        packed = r.chance(0.2)
        path   = pathlib.Path(name, *(["more"] if r.chance(0.3) else []), f"{i:04}.{extension}" + (".gz" if packed else ""))
        pathlib.Path(folder, path.parent).mkdir(exist_ok=True)
        pathlib.Path(folder, path).write_bytes(gzip.compress(content, mtime=0) if packed else content)
        paths.append(str(path))
    pathlib.Path(below, ".hidden." + extension).write_bytes(b"left out")
    pathlib.Path(below, "notes.log").write_bytes(b"left out")
    deep = any("/more/" in path for path in paths)
    return r.one(name, f"{name}/**/*.{extension}*" if deep else f"{name}/*.{extension}*", r.sample(paths, len(paths)), paths[0] if len(paths) == 1 else [name])


def write_text(r, folder, name, sizes, vocab, eos):
    """A file is a document."""
    return {"format": "text", "path": write_files(r, folder, name, [text(r, size).encode() for size in sizes], "txt")}


def write_lines(r, folder, name, objects):
    """JSON objects in one file or in several, a line each or all in one list: their paths."""
    cuts     = sorted(r.sample(range(1, len(objects)), min(len(objects) - 1, r.one(0, 0, 1, 3))))
    parts    = [objects[i:j] for i, j in zip([0, *cuts], [*cuts, len(objects)])]
    readable = r.chance(0.5)
    contents = [json.dumps(part, ensure_ascii=readable, indent=r.one(None, 1)) if r.chance(0.3) else
                "".join(json.dumps(line, ensure_ascii=readable) + "\n" for line in part) for part in parts]
    return write_files(r, folder, name, [content.encode() for content in contents], r.one("jsonl", "json"))


def write_jsonl(r, folder, name, sizes, vocab, eos):
    """A line is one, with a prompt before it or without."""
    column, prompts = r.one("text", "body"), r.chance(0.5)
    path = write_lines(r, folder, name, [{column: text(r, size)} | ({"ask": text(r, r.randint(0, 6))} if prompts else {}) for size in sizes])
    return {"format": "jsonl", "path": path, "column": column} | ({"prompt_column": "ask", "train_on_input": r.one(*BOOL)} if prompts else {})


def write_alpaca(r, folder, name, sizes, vocab, eos):
    """An instruction, its input or none, and the answer."""
    path = write_lines(r, folder, name, [{"instruction": text(r, r.randint(1, 6)), "output": text(r, size)} | r.one({}, {"input": ""}, {"input": text(r, 3)}) for size in sizes])
    return {"format": "alpaca", "path": path, "train_on_input": True}       # the prompt of a template may take all of a sample


def write_chat(r, folder, name, sizes, vocab, eos):
    """A line is a conversation, whose last answer is as long as is asked for."""
    role, said = r.one(("role", "content"), ("from", "value"))
    turns = [[*(text(r, r.randint(1, 6)) for _ in range(r.one(1, 1, 3))), text(r, size)] for size in sizes]
    field = "messages" if role == "role" else "conversations"
    path  = write_lines(r, folder, name, [{field: [{role: ("user", "assistant")[i % 2], said: turn} for i, turn in enumerate(line)]} for line in turns])
    return {"format": "chat", "path": path, "train_on_input": r.one(*BOOL)}


def write_tokens(r, folder, name, sizes, vocab, eos):
    """The end of a document is one of its tokens."""
    wide, others = r.chance(0.5), [i for i in range(vocab) if i != eos]
    ids = [i for size in sizes for i in [*(r.choice(others) for _ in range(size - 1)), eos]]
    pathlib.Path(folder, f"{name}.bin").write_bytes(struct.pack(f"<{len(ids)}{'I' if wide else 'H'}", *ids))
    return {"format": "tokens", "path": r.one(f"{name}.bin", [f"{name}.bin"]), "token_type": "u32" if wide else "u16"}


WRITERS = {"text": write_text, "jsonl": write_jsonl, "alpaca": write_alpaca, "chat": write_chat, "tokens": write_tokens}


CHAT_TEMPLATES = ("chatml", "gemma", "gemma3", "llama3", "marked", "qwen3")       # that ask for no eos, which the tokenizer has no word for


def data(r, folder, source, base, config, samples, ranks):
    """Two sets of one kind. "#full": every micro-batch is as long as max_seq_len, which is what a plan is of."""
    vocab  = config["vocab_size"]
    named  = config.get("eos_token_id")
    eos    = 256 if vocab > 256 else named if named in range(vocab) else None       # the tokenizer's, where there is one
    kind   = r.one("text", "jsonl", "alpaca", "chat", "tokens", "tokens") if vocab > 256 else "tokens"
    packed = r.chance(0.7) or (kind == "tokens" and eos is None)        # without it a file is one document
    full   = packed or r.chance(0.5)
    asked  = kind == "chat" or (kind in ("jsonl", "alpaca") and r.chance(0.5))       # pairs are written by the template, if there is one
    by     = {} if kind == "chat" or not asked else {"use_chat_template": r.one(*BOOL)}
    out    = {"#full": full} | ({"tokenizer.chat_template": f"{source}/tests/golden/chat/{r.one(*CHAT_TEMPLATES)}.jinja"} if asked else {})
    for name, n in (("dataset", samples), ("dataset_val", ranks * r.randint(1, 5))):
        sizes = lengths(r, base["max_seq_len"], n, packed, full)
        keys  = {"packed": packed, "cross_documents": packed and r.chance(0.2)} | by | WRITERS[kind](r, folder, name, sizes, vocab, eos or 0)
        out  |= {f"{name}.{key}": value for key, value in keys.items()}
    return out


# ---- training ----

NUMBERS = {                             # what the numbers of a run follow from, beside model and data
    "max_seq_len": (2, 3, 5, 8, 13, 16, 24, 31), "batch_size": (1, 2, 3, 4), "gradient_accumulation_steps": (1, 1, 2, 3), "max_steps": (1, 2, 3, 4),
    "epochs": (1, 9), "shuffle": BOOL, "seed": (0, 1, 77), "dtype": ("bf16", "fp32"), "grad_dtype": (None, "fp32"), "threads": (1, 1, 1, 2),
    "optimizer.name": ("adamw", "adamw", "sgd"), "optimizer.lr": (0.0, 1e-3, 1e-2), "optimizer.momentum": (0, 0.9), "optimizer.weight_decay": (0, 0.1),
    "optimizer.no_decay": ([], ["*norm*"]), "optimizer.state_dtype": ("fp32", "bf16", "int8"), "optimizer.master_weights": BOOL,
    "optimizer.rounding": ("nearest", "stochastic"), "lr_scheduler.name": ("constant", "cosine", "linear"), "lr_scheduler.num_warmup_steps": (0, 1),
    "clip_grad_norm": (None, None, 0.1, 1.0), "loss.num_output_chunks": ("auto", 1, 3, 7), "loss.ignore_index": (-100, 5),
    "model.dropout": (ABSENT, 0, 0.1, 0.4),
}
FILES = {                               # what else a run writes
    "save_every_n_steps": (None, 1, 2), "keep_last_n": (1, 2), "run_val_every_n_steps": (None, 1, 2), "keep_best": (None, "val_loss"),
    "tensorboard": (False, False, True),
    "profile": (False, False, False, True), "log_every_n_steps": (1, 2),
}
FROZEN = (["tok_embeddings"], ["layers.0"], ["*norm*"], ["*.mlp"], ["layers.*.attn"], ["output", "norm"], ["layers.*"], ["*.weight"])
LORA   = {"lora.rank": (1, 3, 4), "lora.alpha": (ABSENT, 0.5, 16), "lora.dropout": (ABSENT, 0.2), "lora.rslora": BOOL, "lora.merge": BOOL,
          "lora.modules": (ABSENT, ["*"], ["mlp.down"], ["attn.output"], ["layers.0.*"]), "lora.dora": (False, False, True),
          "lora.whole": (ABSENT, ABSENT, ["norm"], ["output"], ["layers.0.mlp"])}
DIST   = {"dist.reshard_after_forward": (True, False), "dist.prefetch": (0, 1, 3), "dist.reduce_behind": (0, 0, 1, 9), "dist.replicate_dim": (1, 1, 2),
          "dist.custom_sharded_layers": ([], [], ["tok_embeddings", "output"]), "dist.modules_to_wrap": ([], [], ["Attention", "MLP"]),
          "dist.sync_each_batch": (True, True, False), "dist.timeout": (ABSENT, ABSENT, "300s", "5 min")}


def given_model(r, source):
    """A model of files, and its config: transformers' golden ones, or what was made of them in GGUF."""
    models  = pathlib.Path(source, "tests/golden/models")
    packed  = [path for path in sorted(pathlib.Path(source, "tests/golden/gguf").glob("*.gguf")) if (models / path.stem).exists() and not path.with_suffix(".safetensors").exists()]
    path    = r.one(*packed) if r.chance(0.3) else r.one(*(path.parent for path in sorted(models.glob("*/model.safetensors"))))
    config  = json.loads((models / path.stem / "config.json").read_text(encoding="utf-8"))
    return str(path), config.get("text_config", config)


def base(r, folder, source, ranks):
    """All but the way of checkpointing."""
    out = r.table(NUMBERS) | r.table(FILES)
    if r.chance(0.15):
        out["model.path"], config = given_model(r, source)
    else:
        config = model(r, r.one(11, 64, 97, 259, 300))
        out["model.config"] = "config.json"
        pathlib.Path(folder, "config.json").write_text(json.dumps(config), encoding="utf-8")
    if config["vocab_size"] > 256 and config["model_type"] != "bert" and r.chance(0.3):
        out |= {"sample_prompts": [text(r, 1), text(r, 1)], "sample_every": r.one(1, 2), "sample_tokens": r.one(1, 5)}
    if config["vocab_size"] > 256:
        out["tokenizer.path"] = f"{source}/recipes/tiny_llama/tokenizer.json"
    if config["model_type"] == "bert":
        out |= {"loss.mask_token_id": 4, "loss.mask_probability": r.one(0.15, 0.5, 1)}
    if r.chance(0.15):
        out["freeze"] = r.one(*FROZEN)
    if r.chance(0.15):
        out |= r.table(LORA)
    if "model.path" in out and ("freeze" in out or "lora.rank" in out):
        out["model.quantize"] = r.one(None, "keep", "nf4", "q8_0", "q4_0")
        out["model.mapped"]   = r.chance(0.5)
    if ranks > 1:
        out |= r.table(DIST)
    samples = out["batch_size"] * out["gradient_accumulation_steps"] * out["max_steps"] * ranks
    out    |= data(r, folder, source, out, config, samples + r.randint(0, 3), ranks)
    out    |= {"#encoder": config["model_type"] == "bert", "#balanced": config.get("output_router_logits", False), "output_dir": "out"}
    if out["run_val_every_n_steps"] is None:
        out["keep_best"] = None
    if out["run_val_every_n_steps"] is None and r.chance(0.7):
        out = {key: value for key, value in out.items() if not key.startswith("dataset_val.")}
    return out


# ---- ways of checkpointing ----

AC     = "activation_checkpointing"
TYPES  = ("TransformerBlock", "Attention", "MLP", "Norm", "Linear", "Embedding")
FATES  = ("keep", "recompute", "recompute", "offload", "prefer_keep", "prefer_recompute", "prefer_offload", "must_save", "must_offload")
VERIFY = ("never", "never", "never", "step", "always")


class World:
    """What a model has that conditions and rules can name."""

    def __init__(self, explained):
        self.ops      = sorted({slot["op"] for slot in explained["slots"]})
        self.bytes    = sorted({slot["bytes"] for slot in explained["slots"]})
        self.n_layers = 1 + max((int(slot["path"].split(".")[1]) for slot in explained["slots"] if slot["path"].startswith("layers.")), default=0)
        paths         = {slot["path"] for slot in explained["slots"]} - {""}
        self.paths    = sorted(paths | {path[:i] for path in paths for i in range(len(path)) if path[i] == "." and path[:i] != "layers"})

    def glob(self, r):
        path  = r.one(*self.paths)
        parts = path.split(".")
        if parts[0] == "layers" and r.chance(0.6):
            parts[1] = "*"
        return r.one(".".join(parts), ".".join(parts), "*." + parts[-1]) if len(parts) > 2 else ".".join(parts)


def condition(r, world, depth=0):
    kind = r.one("every_k_layers", "layers", "module_type", "path", "path", *(("any", "all", "not") if depth < 2 else ()))
    if kind in ("any", "all"):
        return {kind: [condition(r, world, depth + 1) for _ in range(r.randint(1, 3))]}
    if kind == "not":
        return {kind: condition(r, world, depth + 1)}
    return {kind: {"every_k_layers": r.one(1, 2, {"k": 2, "offset": 1}, {"k": 3}), "layers": sorted({r.randrange(world.n_layers) for _ in range(2)}),
                   "module_type": r.one(r.one(*TYPES), [r.one(*TYPES), r.one(*TYPES)]), "path": world.glob(r)}[kind]}


def rule(r, world):
    fields = {
        "path": lambda: world.glob(r), "type": lambda: r.one(*TYPES), "op": lambda: r.one("*", r.one(*world.ops), r.one(*world.ops)[:3] + "*"),
        "call": lambda: r.one(0, 1), "larger_than": lambda: r.one(*world.bytes) - r.one(0, 1), "cheaper_than_flops": lambda: r.one(1, 1000, 100000),
        "every": lambda: r.one(2, 3, {"k": 2, "offset": 1}), "layers": lambda: [r.randrange(world.n_layers)], "not": lambda: condition(r, world, 1),
    }
    names = r.sample(sorted(fields), r.one(0, 1, 1, 2, 2, 3))
    return {**{name: fields[name]() for name in names}, **({} if names else {"op": "*"}), "fate": r.one(*FATES)}


def selective_layer(r, world):
    return {f"{AC}.mode": "selective_layer", f"{AC}.every": r.one(1, 2, 3), f"{AC}.offset": r.one(0, 1, 2)}


def selective_op(r, world):
    return {f"{AC}.mode": "selective_op", **({f"{AC}.save": r.sample(world.ops, r.randint(0, len(world.ops)))} if r.chance(0.7) else {})}


def conditions(r, world):
    return {f"{AC}.conditions": [condition(r, world) for _ in range(r.randint(1, 3))], **({f"{AC}.mode": "full"} if r.chance(0.2) else {})}


MODES = {
    "none": lambda r, world: {}, "switch": lambda r, world: {"enable_activation_checkpointing": r.one(*BOOL)},
    "full": lambda r, world: {f"{AC}.mode": "full"}, "selective_layer": selective_layer, "selective_op": selective_op, "conditions": conditions,
    "nested": lambda r, world: {f"{AC}.mode": "full", f"{AC}.conditions": [{"path": world.glob(r)}, {"module_type": r.one("Linear", "Norm", "MLP")}]},
}


MISTAKES = {                            # every one of them is refused, whatever stands beside it
    "max_seq_len": 65, "batch_size": 0, "dtype": "fp8", "nothing": 1, "freeze": ["*"], "memory_budget": "much", "threads": -1, "loss.num_output_chunks": 0,
    "optimizer.betas": [0.9], "optimizer.no_decay": ["nowhere"], "model.overrides": {"num_key_value_heads": 5}, f"{AC}.mode": "some",
    f"{AC}.layers": "blocks", f"{AC}.verify": "sometimes", f"{AC}.rules": [{"op": "matmull", "fate": "keep"}], f"{AC}.conditions": [{"path": "*.nothing"}],
}


def way(r, world, base):
    """A mode, rules, and what else may change no bit."""
    out = r.one(*MODES.values())(r, world)
    if r.chance(0.6) and "enable_activation_checkpointing" not in out:
        out[f"{AC}.rules"] = [rule(r, world) for _ in range(r.randint(1, 4))]
    out[f"{AC}.verify"]       = r.one(*VERIFY)
    out[f"{AC}.offload.path"] = "away"
    out["loss.keep_logits"]   = r.one("false", "false", "true", "auto")
    out["dist.state_offload"] = r.chance(0.15)
    if base["clip_grad_norm"] is None and base["gradient_accumulation_steps"] == 1:
        out["optimizer_in_bwd"] = r.one("false", "false", "true", "auto")
    if r.chance(0.05):
        key      = r.one(*MISTAKES)
        out[key] = MISTAKES[key]
        out["#wrong"] = True
    return out
