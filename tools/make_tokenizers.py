#!/usr/bin/env python3
"""Make the small tokenizers under tests/golden/tokenizer/.

    python tools/make_tokenizers.py [SMOLLM2.gguf]

gpt2, llama3, qwen2, o200k and odd are trained on texts every Debian has, with the pipelines of the models they are named
after (odd: what no model has, to try the rest). smollm is the beginning of SmolLM2's own vocabulary and merges; smollm.gguf
is the same as GGUF. Needs the `tokenizers` and `gguf` packages.
"""
import copy
import json
import pathlib
import sys

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tokenizer"
CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION + "?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION + "?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
VOCABULARY = 1600
SMOLLM_TOKENS = 3000


def corpus():
    texts = [p.read_text(errors="replace") for p in sorted(pathlib.Path("/usr/share/common-licenses").iterdir())
             if not p.is_symlink()]
    scripts = "Grüße aus Köln. Ça va très bien! Привет, мир. Καλημέρα κόσμε. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. 你好，世界。 こんにちは世界。 안녕하세요 세계. "
    return texts + [scripts * 40, "I'm you're we've he'll she'd it's don't\n\n    return x;\r\n\t\tif (a == b) { 1234567890 }\n" * 60]


def split(pattern, behaviour="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behaviour, invert)


def byte_level(regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def save(name, tokenizer, config):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def train(name, pre, special, config, normalizer=None, ignore_merges=False, added=(), template=None):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(corpus(), trainer)
    for token in special:
        tokenizer.add_special_tokens([token])
    for token in added:
        tokenizer.add_tokens([token])
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(single=template + " $A", special_tokens=[(template, tokenizer.token_to_id(template))])
    save(name, tokenizer, dict(tokenizer_class="PreTrainedTokenizerFast", **config))


def smollm(path):
    fields = gguf.GGUFReader(path).fields
    tokens, merges = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "merges"))
    types = fields["tokenizer.ggml.token_type"].contents()[:SMOLLM_TOKENS]
    tokens = tokens[:SMOLLM_TOKENS]
    known = set(tokens)
    merges = [m for m in merges if all(part in known for part in (*m.split(" "), m.replace(" ", "")))]
    writer = gguf.GGUFWriter(str(OUT / "smollm.gguf"), "llama")
    writer.add_context_length(8192)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(fields["tokenizer.chat_template"].contents())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    save("smollm", smollm_tokenizer(tokens, merges, types), dict(
        tokenizer_class="PreTrainedTokenizerFast", bos_token="<|im_start|>", eos_token="<|im_end|>", unk_token="<|endoftext|>",
        pad_token="<|im_end|>", add_bos_token=False))


def smollm_tokenizer(tokens, merges, types):
    """The pipeline of SmolLM2's tokenizer.json over this vocabulary."""
    model = models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def main(arguments):
    train("gpt2", byte_level(regex=True), ["<|endoftext|>"], dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>", add_prefix_space=False))
    train("llama3", pre_tokenizers.Sequence([split(LLAMA3), byte_level()]),
          ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|eot_id|>"],
          dict(bos_token="<|begin_of_text|>", eos_token="<|end_of_text|>"), ignore_merges=True, template="<|begin_of_text|>")
    train("qwen2", pre_tokenizers.Sequence([split(QWEN2), byte_level()]), ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
          dict(bos_token=None, eos_token="<|im_end|>", add_bos_token=False), normalizer=normalizers.NFC())
    train("o200k", pre_tokenizers.Sequence([split(O200K), byte_level()]), ["<|endoftext|>", "<|endofprompt|>"],
          dict(bos_token="<|endoftext|>", eos_token="<|endoftext|>"))
    train("odd", pre_tokenizers.Sequence([split(r"\w+[.]", "merged_with_next"), split(r"[\d,]+|\s", "merged_with_previous"),
                                          split("zz", "removed"), split(r"[^\S\n]+|x*", "contiguous"), split(r"\p{Han}+|[\p{Po}\w]+", "isolated", True),
                                          pre_tokenizers.Digits(individual_digits=False), byte_level(regex=True, prefix=True)]),
          [AddedToken("<l>", lstrip=True), AddedToken("<r>", rstrip=True), AddedToken("<lr>", lstrip=True, rstrip=True)],
          dict(bos_token="<l>", eos_token="<r>"), normalizer=normalizers.Sequence([normalizers.NFKD(), normalizers.NFC()]),
          added=[AddedToken("word", single_word=True), AddedToken("<nor\u00f1>", normalized=True), AddedToken("<raw\u00f1>", normalized=False),
                 AddedToken("<nor", normalized=True), AddedToken("  ", normalized=False, rstrip=True), AddedToken("\ufb01x", normalized=True)])
    if arguments:
        smollm(arguments[0])


if __name__ == "__main__":
    main(sys.argv[1:])
