#!/usr/bin/env python3
"""Write what the `tokenizers` package makes of many texts, for tests/io/test_tokenizer.c.

    python tools/goldens_tokenizer.py [SMOLLM2.gguf]

tests/golden/tokenizer/strings.jsonl   a text a line (`text`, or `hex` where it is not UTF-8, decoded with errors="replace";
                                       `times` repeats it) and its ids by tokenizer; of more than 60 ids their number and hash
tests/golden/tokenizer/points.txt      the hash of the ids of every code point in a setting, by tokenizer and block of 4096;
                                       planes without characters of their own for two of the tokenizers only
tests/golden/tokenizer/families/strings.jsonl   more texts, for the tokenizers of tools/make_tokenizer_families.py
tests/golden/tokenizer/families/hashes.bin      for each family, by name, and each text of both files three hashes: of its ids, of the bytes of
                                       what they decode to, and of the same without special tokens. Of a hash the upper 4 bytes, little endian
tests/golden/tokenizer/families/points.txt      as points.txt, planes 0 and 1

The hash of ids (or bytes) is h = h * 6364136223846793005 + id + 1 from 0, modulo 2^64. The tokenizers are those of
tools/make_tokenizers.py and, where a GGUF file of SmolLM2 is named, the whole of it as `smollm2`.
"""
import json
import pathlib
import random
import sys
import unicodedata

import gguf
import numpy
from tokenizers import Tokenizer

import gguf_names
import make_tokenizers

FOLDER = make_tokenizers.OUT
FAMILIES = FOLDER / "families"
FACTOR = 6364136223846793005
BLOCK = 4096
EMPTY_PLANES = {*range(4, 14), 15, 16}      # unassigned or private
SETTINGS = {"odd": "word{c}word {c}<l>{c}<r>{c} {c}zz", "": "a{c}1{c} {c}{c}'{c}\u0323\u0301\n{c}"}

HAND_WRITTEN = """
Hello, world!|hello|Hello  world|  leading|trailing  |a|I'm you're we've he'll she'd it's don't|I'M YOU'RE WE'VE HE'LL SHE'D IT'S DON'T|I\u2019m you\u2019re
we\u2019ve he\u2019ll she\u2019d it\u2019s don\u2019t|'s't're've'm'll'd|'S'T'RE'VE'M'LL'D|'\u017f '\u017ft|x'lL'Ll'rE'vE|'''''|rock'n'roll '90s|O'Brien's|'tis|isn't'
1|12|123|1234|12345678901234567890|3.14159|1,000,000|1e-8|0x1F|v1.2.3|2024-01-31T12:34:56Z|50%|$9.99|\u0661\u0662\u0663|\u0967\u0968\u0969 \u096a|\uff11\uff12\uff13|\u2460\u2461\u2462|\u2160\u2161\u2162|\u00bd\u00bc\u00be|x\u00b2y\u00b3|\u5341\u4e8c|\U0001d7d8\U0001d7d9|\U00011de1 \U00016ff4
def f(x):\\n    return x + 1\\n|if (a==b) { c(); }|for(i=0;i<n;++i)\\tx[i]+=1;|<div class="a">b</div>|https://example.org/a?b=c&d=e#f|a@b.example|C:\\\\dir\\\\file.txt|/usr/bin/env|snake_case camelCase PascalCase SCREAMING_CASE kebab-case|HTTPServer iPhone eBay McDonald|ABCdef GHIjkl mnoPQR|...|!!!|?!?!|--- *** ___|:-) ;) <3|a.b.c|a...b|(a)[b]{c}|"q" 'q' `q`|\u201cq\u201d \u2018q\u2019|\u00abq\u00bb|\u2026|\u2014 \u2013|#hash @at &amp;|~!@#$%^&*()_+{}|:"<>?
 |  |   |    |     |\\t|\\t\\t|\\n|\\n\\n|\\n\\n\\n|\\r|\\r\\n|\\r\\n\\r\\n|\\n\\r| \\n|\\n | \\n |  \\n  |a \\n b|a  \\n  b|\\t \\t \\t|a\\tb|a \\tb|a\\t b|a\\n\\n\\nb|a \\n \\n b|a\\r\\nb\\r\\n|a\\vb\\fc|a   b|a    b     c|end   \\n|   \\n   start|x \\t\\n y
a\u00a0b|\u00a0\u00a0|a\u0085b|\u0085|a\u180eb|\u180e|a\u2028b\u2029c|\u2003\u2003x|\u3000\u5168\u89d2|a\u200bb|a\u200cb|a\u200db|\ufeffa|a\ufeff|a\u2060b|\u202ea\u202c|\u00ad|a\u00adb|\u1680x|\u205fx|\u202fx|\x1c\x1d\x1e\x1f|\x00|a\x00b|\x01\x02\x7f|\x80\x9f
caf\u00e9|cafe\u0301|\u00e5 a\u030a \u212b|\u1e69 s\u0323\u0307 s\u0307\u0323|\u1e9b\u0323|\ufb01 \ufb01x \ufb03|\u017f|\u00df \u1e9e|\u0130 i\u0307 \u0131|\u01c5|\u03a3\u03c2\u03c3|o\u0302\u0323\u0301|a\u0301\u0302\u0303\u0304\u0305\u0306|\u0301a|\u0301|Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320\u034dA|\u0915\u093c \u0958|\u0f71\u0f72\u0f74|\u1100\u1161\u11a8 \uac01 \u1100 \u1161|\uac00\u11a7 \uac00\u11a8 \uac01\u11a8|\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165|\u3131\u314f|\u304b\u3099 \u304c|\uff76\uff9e|\u2126 \u03a9|\u2f00 \u4e00|\ufdfa|\u00a8|\u1e0b\u0323|\u0344|\u0958|\u2adc|\U0001d15e|\U0002f800|\U00011938 \U00011935\U00011930|\u0897\u0301\u0323|a\u0898\u0323\u0301|\u32ff|\ua7f2
\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!|\u041a\u0430\u043a \u0434\u0435\u043b\u0430?|\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5|\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd|\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd|\u0645\u0631\u062d\u0628\u0627 \u0628\u0643|\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627|\u0627\u0644\u0639\u0631\u0628\u064a\u0629 123 abc|\u0928\u092e\u0938\u094d\u0924\u0947|\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35|\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd|\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0|\u1230\u120b\u121d|\u4f60\u597d\uff0c\u4e16\u754c\u3002|\u4f60\u597dworld123|\u3053\u3093\u306b\u3061\u306f\u4e16\u754c|\u30ab\u30bf\u30ab\u30ca|\u5b89\u5168 \u5371\u967a|\U00020000\U0002a6d6|\U00031350|\u13a0\u13b3|\u1d2c\u02b0|\u2c00|\u0780\u07a6
\U0001f600|\U0001f600\U0001f601|\U0001f44d\U0001f3fd|\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466|\U0001f3f3\ufe0f\u200d\U0001f308|\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7|1\ufe0f\u20e3|\u2764\ufe0f|\u263a|a\U0001f600b \U0001f600 1\U0001f600|\U0001fae8 \U0001f6dc|\U0001f9d1\u200d\U0001f91d\u200d\U0001f9d1|\u2194\u21aa|\u2200x\u2208\u211d|\u222b\u2211\u221a|\u20ac\u00a3\u00a5|\ue000|\U000f0000|\U0010ffff|\ufffe\uffff|\u0378|\U000e0001|\ufffd|\ufffd\ufffd|\u24b6\u24d0|\U0001f130
<|endoftext|>|a<|endoftext|>b|<|im_start|>user\\nhi<|im_end|>\\n| <|im_end|> |<|im_start|><|im_start|>|<|im_|<|im_start|<|im_start>|<|im_start|x>|<<|im_start|>>|<|IM_START|>|<|begin_of_text|>a<|eot_id|>|<|end_of_text|>|<|reserved_special_token_0|>1|<|endofprompt|><|endoftext|>|<repo_name>x<file_sep>|<|endoftext|><|endoftext|| <|endoftext|>\\n\\n<|endoftext|> |<|endoftext
<l>|a <l>|a  \\n<l>b|<l> a|<r>|<r> a|<r>  \\n a|a<r>|<r>  <r>|<l>  <l>|<r>  <l>|  <lr>  |a <lr> b|<lr> <lr>\u00a0<l>|word|a word b|words|sword|word word|(word)|word1|1word|word_|word\u0301|\u00e9word|word\u00e9|wordword|word\u200d|word\u2460|wordzz|zzword|<nor\u00f1>|<norn\u0303>|<NOR\u00f1>|<raw\u00f1>|<rawn\u0303>|<nor|<nor\u00f1|\ufb01x|fix|a  b|a   b|  x|<r>    a|    <l>   <r>   word|zz a zz,b zzz|a,b;c 1,2|12,34 56. x.y|xx \u4e00\u4e01 xx|1 2 3 a. b. word.
"""

INVALID = ["ff", "61ff62", "c3", "c328", "e28281", "e282", "e28241", "eda080", "edbfbf", "f09f98", "f09f9841", "f0808080", "f4908080",
           "f8888080", "c0af", "c1bf", "80", "8080", "61c3a9c3", "e0809f", "fefe", "f0f0f0", "e2e28282ac", "20ff20ff20", "3c7c696d5f737461ff72747c3e"]
LONG = [("a", 3000), (" ", 3000), ("\n", 2000), (" \n", 1000), ("ab", 2000), ("\u00e9", 1000), ("0", 1001), ("!", 999), ("\U0001f600", 400),
        ("a\u0301\u0323", 700), ("\u0301\u0323", 900), ("\uac00", 500), ("the quick brown fox ", 200), ("<|im_start|>", 100), ("'s", 500), ("\ud55c \t\n", 200)]


def random_texts():
    draw = random.Random(20240607)
    pools = ["abcdefghij ", "ab 12'\n\t", "eE\u0301\u0323\u0308 \u00e9", "\u4f60\u597d\u3002a1 ", "sStTrReEvVmMlLdD' \u2019", "<|im_startend>ofx ",
             "".join(chr(c) for c in list(range(32, 127)) + [0x85, 0xA0, 0x180E, 0x200D, 0x2028, 0x300, 0x5D0, 0x627, 0x915, 0xAC00, 0x1F600, 0xE000])]
    for i in range(84):
        yield "".join(draw.choice(pools[i % len(pools)]) for _ in range(draw.randint(3, 60)))
    for _ in range(40):
        yield "".join(chr(draw.choice([draw.randint(0, 0x2FF), draw.randint(0, 0xD7FF), draw.randint(0xE000, 0x1FFFF), draw.randint(0x20000, 0x10FFFF)]))
                      for _ in range(draw.randint(2, 25)))


def cases():
    yield {"text": ""}
    seen = {""}
    texts = [t.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\v", "\v").replace("\\f", "\f")
             for line in HAND_WRITTEN.strip("\n").split("\n") for t in split_line(line)]
    for text in texts + list(random_texts()):
        for form in (text, unicodedata.normalize("NFD", text)):
            if form not in seen:
                seen.add(form)
                yield {"text": form}
    for digits in INVALID:
        yield {"hex": digits}
    for text, times in LONG:
        yield {"text": text, "times": times}


def split_line(line):
    """At bars, but not at those of special tokens."""
    return [t.replace("\x00BAR", "|") for t in line.replace("<|", "<\x00BAR").replace("|>", "\x00BAR>").split("|")]


def text_of(case):
    text = case["text"] if "text" in case else bytes.fromhex(case["hex"]).decode("utf-8", "replace")
    return text * case.get("times", 1)


def hash_of(ids):
    ids = numpy.asarray(ids, dtype=numpy.uint64) + numpy.uint64(1)
    powers = numpy.full(len(ids), FACTOR, dtype=numpy.uint64)
    if len(ids):
        powers[0] = 1
    with numpy.errstate(over="ignore"):
        return int((ids * numpy.cumprod(powers, dtype=numpy.uint64)[::-1]).sum(dtype=numpy.uint64))


FAMILY_POOLS = ["ab \u2581", "the  of\t\n", "\u2581 \u2581te", "caf\u00e9 Stra\u00dfe\u0301 \u0130I\u0307", "a.b,c!d (e) [f] -- g's h n't i've", "\u4f60\u597d ab\u3002", "\U0001f600\U0001f44d\U0001f3fd\u200d a",
                "``a'' \"b\" ", "\u00a0\u2003\u3000 a\u200b\u200d", "0123 4,5.6", "\u0915\u094d\u0937\u093f \u0e2a\u0e27\u0e31", "<s></s><unk>ab ", "[INST] a [/INST]", "<0x0A> ab<0xC3>", "\ufb01\ufb03x\u2460\uff21\u212b", "e\u0301\u0323o\u0308\u0304 ",
                "return x;\n    if (a == b) {\n        c += 1; }\n", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab ", "\x00\x01\x1f\x7f\u0085 a", "\r\n\r \n\n\n"]
FAMILY_WORDS = ["the", "of", "License", " ", "  ", "    ", "\n", "\n\n", "\t", "<s>", "</s>", "<unk>", "[CLS]", "[MASK]", "<|im_start|>", "<|end|>", "<extra_id_1>", "[INST]", "don't",
                "caf\u00e9", "\u4e16\u754c", "\U0001f600", "\u2581", "x = [i for i in range(10)]", "antidisestablishmentarianism", "12345", "...", "<r>", "<l>", "of the", "HELLO", "\u0130", "\u0301", "<b>", "</b>"]
FAMILY_LONG = [("a", 130), ("abab", 2000), ("\u2581", 500), ("\u00e9\u4f60", 300), ("the of ", 400), ("<s>a", 200), ("x\u0301", 101), ("\U0001f600 ", 150), ("un\u00adbelievable", 40), ("\n\n ", 300), ("lon\u2060g", 900)]


def family_cases():
    draw = random.Random(20260207)
    for i in range(260):
        pool = FAMILY_POOLS[i % len(FAMILY_POOLS)]
        yield {"text": "".join(draw.choice(pool) for _ in range(draw.randint(2, 50)))}
    for _ in range(240):
        yield {"text": draw.choice(["", " "]).join(draw.choice(FAMILY_WORDS) for _ in range(draw.randint(1, 12)))}
    for _ in range(60):
        yield {"text": "".join(chr(draw.choice([draw.randint(0, 0x7F), draw.randint(0x80, 0x24F), draw.randint(0x300, 0xD7FF), draw.randint(0xE000, 0x1FFFF)]))
                               for _ in range(draw.randint(2, 25)))}
    for text, times in FAMILY_LONG:
        yield {"text": text, "times": times}


def write_families():
    names = sorted(p.name for p in FAMILIES.iterdir() if p.is_dir())
    tokenizers = {n: Tokenizer.from_file(str(FAMILIES / n / "tokenizer.json")) for n in names}
    more = list(family_cases())
    with open(FAMILIES / "strings.jsonl", "w") as out:
        out.writelines(json.dumps(case, separators=(",", ":")) + "\n" for case in more)
    texts = [text_of(case) for case in list(cases()) + more]
    found = []
    for tokenizer in tokenizers.values():
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            found.append(hash_of(ids))
            found += [hash_of(list(tokenizer.decode(ids, skip_special_tokens=skip).encode())) for skip in (False, True)]
    (FAMILIES / "hashes.bin").write_bytes((numpy.asarray(found, dtype="<u8") >> numpy.uint64(32)).astype("<u4").tobytes())
    write_points(tokenizers, FAMILIES / "points.txt", last=0x20000)


def write_named():
    """Of each name that GGUF has for a pre-tokenizer, a hash of the lengths of all pieces of all texts, each text ended by a zero."""
    texts = [text_of(case) for case in [*cases(), *family_cases()]]
    with open(FAMILIES / "named.txt", "w") as out:
        for names, _ in gguf_names.named():
            for name in names:
                normalizer, cut = gguf_names.parts(name)
                lengths = []
                for text in texts:
                    lengths += [len(p) for p, _ in cut.pre_tokenize_str(normalizer.normalize_str(text) if normalizer else text)] + [0]
                out.write("%s %016x\n" % (name, hash_of(lengths)))


def golden(ids):
    return ids if len(ids) <= 60 else {"n": len(ids), "hash": "%016x" % hash_of(ids)}


def write_strings(tokenizers):
    with open(FOLDER / "strings.jsonl", "w") as out:
        for case in cases():
            text = text_of(case)
            ids = {name: golden(t.encode(text, add_special_tokens=False).ids) for name, t in tokenizers.items()}
            out.write(json.dumps(dict(case, ids=ids), separators=(",", ":")) + "\n")


def write_points(tokenizers, path, last=0x110000):
    with open(path, "w") as out:
        for name, tokenizer in tokenizers.items():
            setting = SETTINGS.get(name, SETTINGS[""])
            for base in range(0, last, BLOCK):
                if base >> 16 in EMPTY_PLANES and name not in ("gpt2", "odd"):
                    continue
                text = "".join(setting.replace("{c}", chr(c)) for c in range(base, base + BLOCK) if not 0xD800 <= c < 0xE000)
                ids = tokenizer.encode(text, add_special_tokens=False).ids
                out.write("%s %06x %016x\n" % (name, base, hash_of(ids)))


def main(arguments):
    names = ["gpt2", "llama3", "qwen2", "o200k", "smollm", "odd"]
    tokenizers = {n: Tokenizer.from_file(str(FOLDER / n / "tokenizer.json")) for n in names}
    write_points(tokenizers, FOLDER / "points.txt")
    write_families()
    write_named()
    if arguments:
        fields = gguf.GGUFReader(arguments[0]).fields
        tokens, merges, types = (fields["tokenizer.ggml." + k].contents() for k in ("tokens", "merges", "token_type"))
        tokenizers["smollm2"] = make_tokenizers.smollm_tokenizer(tokens, merges, types)
    write_strings(tokenizers)


if __name__ == "__main__":
    main(sys.argv[1:])
