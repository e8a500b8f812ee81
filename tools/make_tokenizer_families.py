#!/usr/bin/env python3
"""Make the small tokenizers under tests/golden/tokenizer/families/: the pipelines of families that are not byte-level BPE.

    python tools/make_tokenizer_families.py

A folder a family, named after the model whose normalizer, pre-tokenizer, model kind, decoder and post-processor it has; the
vocabularies are trained on texts every Debian has, by SentencePiece where the family's was. mixed and rest are what no model
has, to try what the others leave out. Files of GGUF and SentencePiece are the same as the folder of
their name; ../spm is a folder with nothing but what SentencePiece made. Needs the packages `tokenizers`, `sentencepiece`, `protobuf` and `gguf`.
"""
import collections
import io
import json
import tempfile
import unicodedata

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import gguf_names
import make_tokenizers

OUT = make_tokenizers.OUT / "families"
SPACE = "\u2581"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def lines():
    found = [line for text in make_tokenizers.corpus() for line in text.splitlines() if line.strip()]
    return found + ["x = [i  for i in range(10)]", "\tif  (a):", "a    b        c"] * 30


def spm(kind, size, **options):
    """A SentencePiece model: its pieces with scores and kinds, and its charsmap."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=out, model_type=kind, vocab_size=size, character_coverage=0.9995,
        max_sentence_length=100000, minloglevel=2, num_threads=1, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def llama_style(size, **options):
    return spm("bpe", size, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
               allow_whitespace_only_pieces=True, remove_extra_whitespaces=False, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, **options)


def merges_of(proto):
    """As transformers makes merges of scores: by score, then the longer left part, then the longer right one."""
    score = {p.piece: p.score for p in proto.pieces}
    number = {p.piece: i for i, p in enumerate(proto.pieces)}
    found = []
    for piece in score:
        parts = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in score and piece[i:] in score]
        found += [(a, b, score[piece]) for a, b in sorted(parts, key=lambda p: (number[p[0]], number[p[1]]))]
    found.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(a, b) for a, b, _ in found]


def bpe(proto, **options):
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    return Tokenizer(models.BPE(vocab, merges_of(proto), unk_token="<unk>", fuse_unk=True, byte_fallback=True, **options))


def unigram(proto, byte_fallback=False):
    return Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], proto.trainer_spec.unk_id, byte_fallback))


def charsmap(proto):
    return normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)


def rules():
    """A part of nmt_nfkc, small enough to keep: the compatibility forms of some blocks, what is deleted, what becomes a space."""
    found = {}
    for c in [*range(0xA0, 0x180), *range(0x1E00, 0x1F00), *range(0x2000, 0x2070), *range(0x2100, 0x2150), *range(0x2460, 0x24EA), *range(0xFB00, 0xFB07),
              *range(0xFF01, 0xFF5F), 0x3000, 0x1F100, 0x1D400, 0x1D401]:
        for text in {chr(c), unicodedata.normalize("NFD", chr(c))}:
            to = unicodedata.normalize("NFKC", text)
            if to != text:
                found[text] = to
    found |= {c: "" for c in "\x01\x02\x1f\x7f\u200b\u200e\u200f\ufeff"}
    found |= {c: " " for c in "\t\n\r\u2028\u2029\u200d\u3000"}
    return found


def rule_file():
    out = tempfile.NamedTemporaryFile("w", suffix=".tsv")
    for text, to in sorted(rules().items()):
        out.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in text), " ".join("%X" % ord(c) for c in to)))
    out.flush()
    return out


def save(name, tokenizer, **config):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="PreTrainedTokenizerFast", **config), indent=1) + "\n")


def template(tokenizer, text, *tokens):
    tokenizer.post_processor = processors.TemplateProcessing(single=text, special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])


def spm_decoder(strip=True):
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    return decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))


def special(*tokens):
    return [AddedToken(t, normalized=False, special=True) for t in tokens]


def llama2():
    proto = llama_style(1200)
    t = bpe(proto)
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    t.decoder = spm_decoder()
    t.add_special_tokens(special("<unk>", "<s>", "</s>"))
    template(t, "<s> $A", "<s>")
    save("llama2", t, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    write_gguf("llama2", "llama", proto, bos=1, eos=2, unk=0)
    (OUT / "llama2.model").write_bytes(proto.SerializeToString())

    t = bpe(proto)                                        # Phi 3: tokens that take the white space after them; TinyLlama's chat
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    t.decoder = spm_decoder()
    t.add_special_tokens(special("<unk>", "<s>", "</s>") + [AddedToken(k, normalized=False, special=True, rstrip=True)
                                                            for k in ("<|user|>", "<|end|>", "<|im_start|>", "<|endoftext|>")])
    template(t, "<s> $A", "<s>")
    save("phi3", t, bos_token="<s>", eos_token="<|endoftext|>")

    t = bpe(proto)                                        # Mistral
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "first", False)
    t.decoder = spm_decoder()
    t.add_special_tokens(special("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "<|im_start|>"))
    template(t, "<s> $A", "<s>")
    save("mistral", t, bos_token={"content": "<s>", "lstrip": False}, eos_token="</s>")


def gemma():
    proto = llama_style(1300, add_dummy_prefix=False, user_defined_symbols=["\n", "\n\n", "\n\n\n", SPACE * 2, SPACE * 3, SPACE * 4, "<b>", "</b>"])
    t = bpe(proto)
    t.normalizer = normalizers.Replace(" ", SPACE)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", False)
    t.decoder = spm_decoder(strip=False)
    t.add_special_tokens(special("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"))
    t.add_tokens([AddedToken(k, normalized=False) for k in ("\n", "\n\n", "\n\n\n", SPACE * 2, SPACE * 3, SPACE * 4, "<b>", "</b>")])
    template(t, "<s> $A", "<s>")
    save("gemma", t, bos_token="<s>", eos_token="</s>")
    write_merges_gguf("gemma", "gemma4", None, t)


def t5():
    with rule_file() as kept:
        proto = spm("unigram", 900, normalization_rule_tsv=kept.name, unk_id=2, bos_id=-1, eos_id=1, pad_id=0)
    t = unigram(proto)
    t.normalizer = normalizers.Sequence([charsmap(proto), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), SPACE)])
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", True)
    t.decoder = decoders.Metaspace(SPACE, "always")
    t.add_special_tokens(special("<pad>", "</s>", "<unk>"))
    template(t, "$A </s>", "</s>")
    save("t5", t, eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
    write_gguf("t5", "t5", proto, eos=1, unk=2, pad=0)
    (OUT / "t5.model").write_bytes(proto.SerializeToString())

    t = unigram(proto)                                    # the first files of T5: spaces cut before they are marked
    t.normalizer = charsmap(proto)
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(SPACE, "always", True)])
    t.decoder = decoders.Metaspace(SPACE, "always")
    t.add_special_tokens(special("<pad>", "</s>", "<unk>"))
    t.add_special_tokens([AddedToken("<extra_id_%d>" % i, normalized=False, special=True, lstrip=True) for i in range(3)])
    template(t, "$A </s>", "</s>")
    save("t5_old", t, eos_token="</s>")

    t = unigram(proto)                                    # ALBERT
    t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                         normalizers.StripAccents(), normalizers.Lowercase(), charsmap(proto),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", True)
    t.decoder = decoders.Metaspace(SPACE, "always")
    t.add_special_tokens(special("<pad>", "</s>", "<unk>") + [AddedToken("[MASK]", normalized=False, special=True, lstrip=True)])
    template(t, "<pad> $A </s>", "<pad>", "</s>")
    save("albert", t, bos_token="<pad>", eos_token="</s>")

    proto = spm("unigram", 1100, normalization_rule_name="identity", byte_fallback=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    t = unigram(proto, byte_fallback=True)
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "first", True)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, "first")])
    t.add_special_tokens(special("<unk>", "<s>", "</s>"))
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.RobertaProcessing(("</s>", 2), ("<s>", 1))])
    save("unigram_bytes", t)


def wordpiece(lowercase):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    words = trainers.WordPieceTrainer(vocab_size=1200, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.train_from_iterator(make_tokenizers.corpus(), words)
    return t


def bert():
    t = wordpiece(True)
    template(t, "[CLS] $A [SEP]", "[CLS]", "[SEP]")
    save("bert", t, cls_token="[CLS]", sep_token="[SEP]", do_lower_case=True)
    write_wordpiece_gguf("bert", t)
    t = wordpiece(False)
    t.post_processor = processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    save("bert_cased", t, cls_token="[CLS]", sep_token="[SEP]")


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(make_tokenizers.corpus(), trainers.BpeTrainer(
        vocab_size=1600, show_progress=False, end_of_word_suffix="</w>", initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<|startoftext|>", "<|endoftext|>"]))
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), False, False)
    save("clip", t, bos_token="<|startoftext|>", eos_token="<|endoftext|>")


def mixed():
    """GPT-1's suffix, and bytes that only some have."""
    t = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True, handle_chinese_chars=False)
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.decoder = decoders.BPEDecoder("</w>")
    t.train_from_iterator(make_tokenizers.corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, end_of_word_suffix="</w>",
                                                                     special_tokens=["<unk>"], limit_alphabet=60))
    save("openai", t)

    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Strip(True, False), normalizers.NFKC(), normalizers.Replace(Regex(r"[\d]+(?=\d)"), "#")])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.Punctuation("merged_with_previous"),
                                               pre_tokenizers.Digits(True), pre_tokenizers.WhitespaceSplit()])
    t.decoder = decoders.WordPiece(prefix="@@", cleanup=False)
    t.train_from_iterator(make_tokenizers.corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, continuing_subword_prefix="@@",
                                                                     special_tokens=["<unk>"], limit_alphabet=60))
    t.add_tokens([AddedToken("the", single_word=True), AddedToken("of the", normalized=True), AddedToken("<l>", lstrip=True, normalized=False),
                  AddedToken("<r>", rstrip=True, normalized=True), AddedToken("\ufb01x", normalized=True)])
    save("mixed", t)

    vocab = collections.OrderedDict((k, i) for i, k in enumerate(
        ["<unk>", "a", "b", "e", "t", SPACE, SPACE + "t", SPACE * 2, "ab", "\u00e9", "te", "b" + SPACE, "<0xC3>", "<0xA0>", "<0x0A>", "abab", "<0xE2>", "<0x82>", "<0xAC>", "<0x+F>"]))
    t = Tokenizer(models.BPE(vocab, [("a", "b"), (SPACE, SPACE), (SPACE, "t"), ("t", "e"), ("b", SPACE), ("ab", "ab")], unk_token="<unk>",
                             fuse_unk=False, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "never", False)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Strip(SPACE, 2, 0), decoders.Replace(Regex("[" + SPACE + "]"), "_")])
    t.add_special_tokens(special("<0x+F>"))
    save("rest", t)


def falcon():
    """Pre-tokenizers behind the byte-level alphabet, whose letters are digits now and then."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = gguf_names.falcon()
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(make_tokenizers.corpus(), trainers.BpeTrainer(vocab_size=900, show_progress=False, special_tokens=["<|endoftext|>"],
                                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    save("falcon", t, eos_token="<|endoftext|>")
    write_merges_gguf("falcon", "gpt2", "falcon", t)


def write_tokens(writer, tokens, scores, types, **ids):
    writer.add_context_length(512)
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    for name, add in dict(bos=writer.add_bos_token_id, eos=writer.add_eos_token_id, unk=writer.add_unk_token_id, pad=writer.add_pad_token_id).items():
        if name in ids:
            add(ids[name])


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_gguf(name, model, proto, **ids):
    """As llama.cpp's convert_hf_to_gguf.py writes a SentencePiece model; its kinds and GGUF's have the same numbers."""
    writer = gguf.GGUFWriter(str(OUT / (name + ".gguf")), "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    write_tokens(writer, [p.piece for p in proto.pieces], [p.score for p in proto.pieces], [p.type for p in proto.pieces], **ids)
    if model == "t5":
        writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
        writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(True)
    finish(writer)


def write_merges_gguf(name, model, pre, tokenizer):
    """As llama.cpp's convert_hf_to_gguf.py writes a list of merges; what is added and not special is of the user's kind."""
    file = json.loads(tokenizer.to_str())
    kinds = {a["id"]: 3 if a["special"] else 4 for a in file["added_tokens"]}
    writer = gguf.GGUFWriter(str(OUT / (name + ".gguf")), "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list([tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())])
    writer.add_token_types([kinds.get(i, 1) for i in range(tokenizer.get_vocab_size())])
    writer.add_token_merges([" ".join(m) for m in file["model"]["merges"]])
    for key, text in (("bos", "<s>"), ("eos", "</s>"), ("unknown", "<unk>")):
        if tokenizer.token_to_id(text) is not None:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", tokenizer.token_to_id(text))
    finish(writer)
    return OUT / (name + ".gguf")


def write_wordpiece_gguf(name, tokenizer):
    """As llama.cpp's convert_hf_to_gguf.py writes BERT: a token that begins a word has a space in front, "##" is gone."""
    writer = gguf.GGUFWriter(str(OUT / (name + ".gguf")), "bert")
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
    types = [3 if t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") else 1 for t, _ in vocab]
    tokens = [t if kind == 3 else t[2:] if t.startswith("##") else SPACE + t for (t, _), kind in zip(vocab, types)]
    write_tokens(writer, tokens, [-1000.0] * len(tokens), types, unk=tokens.index("[UNK]"), pad=tokens.index("[PAD]"))
    writer.add_uint32("tokenizer.ggml.cls_token_id", tokens.index("[CLS]"))
    writer.add_uint32("tokenizer.ggml.seperator_token_id", tokens.index("[SEP]"))
    finish(writer)


def small():
    """A model with a few pieces, and tokens that only tokenizer_config.json knows."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.remove_extra_whitespaces = False
    pieces = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<0x0A>", 0, 6), (SPACE + "a", 0, 1), ("ab", -1, 1), (SPACE, -2, 1), ("a", -3, 1), ("b", -4, 1)]
    for piece, score, kind in pieces:
        proto.pieces.add(piece=piece, score=score, type=kind)
    folder = OUT.parent / "spm"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes(proto.SerializeToString())
    tokens = {0: "<unk>", 1: "<s>", 2: "</s>", 9: "<pad>", 10: "<|end|>"}
    added = {i: dict(content=t, lstrip=False, normalized=False, rstrip=i == 10, single_word=False, special=True) for i, t in tokens.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(tokenizer_class="LlamaTokenizer", add_bos_token=True, eos_token="<|end|>",
                                                                  added_tokens_decoder=added), indent=1) + "\n")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}<|end|>{% endfor %}\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for make in (llama2, gemma, t5, bert, clip, mixed, falcon, small):
        make()


if __name__ == "__main__":
    main()
