#!/usr/bin/env python3
"""Write src/tokenizer/unicode_sets.def: the sets of characters that normalizers and pre-tokenizers of the `tokenizers` package use.

The package, which follows several Unicodes from 8 to 16 there, is asked code point by code point, so these sets are whole and do
not depend on what Unicode another library knows; of characters that join the one before them only late ones are listed. Needs the `tokenizers` package and Python 3.11, whose Unicode 14 is the base
of lists of what came later.

    python tools/gen_unicode_sets.py > src/tokenizer/unicode_sets.def
"""
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from gen_unicode_late import ranges

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def dropped(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("x%sx" % chr(c)) == "xx"}


def cut_out(pre):
    return {c for c in POINTS if len(pre.pre_tokenize_str("x%sx" % chr(c))) == 3}


def charsmap(byte, text):
    """A double array (src/tokenizer/charsmap.c) with the one rule that `byte` becomes `text`."""
    units = [0] * 512
    units[0] = 256 << 10
    units[256 ^ byte] = byte | 1 << 8 | 1 << 10
    units[256 ^ byte ^ 1] = 1 << 31
    trie = struct.pack("<512I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + text + b"\0")


def joiners():
    """Characters of one grapheme with the one before them, which a rule for that one takes along; those after Unicode 14."""
    x = charsmap(ord("x"), b"y")
    return {c for c in POINTS if unicodedata.category(chr(c)) == "Cn" and x.normalize_str("x" + chr(c)) == "y"}


def main():
    assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
    print("/* Sets of characters as tokenizers %s has them. Made by tools/gen_unicode_sets.py. RP_SET(set, first, last), in order within a\n"
          " * set; the joiners of RP_SET and the lower case of RP_LOWER(from, to) are those that came after Unicode 14. */" % tokenizers.__version__)
    spaced = bert(handle_chinese_chars=True)
    sets = [("punctuation", cut_out(pre_tokenizers.Punctuation())), ("dropped", dropped(bert(clean_text=True))),
            ("nonspacing", dropped(bert(strip_accents=True))), ("mark", dropped(normalizers.StripAccents())),
            ("cjk", {c for c in POINTS if len(spaced.normalize_str("x%sx" % chr(c))) == 5}),
            ("joiner", joiners())]
    for name, members in sets:
        for first, last in ranges(members):
            print("RP_SET(%s, 0x%05x, 0x%05x)" % (name, first, last))
    lower = normalizers.Lowercase()
    for c in POINTS:
        text = lower.normalize_str(chr(c))
        if text != chr(c).lower():
            print("RP_LOWER(0x%05x, 0x%05x)" % (c, ord(text)))


if __name__ == "__main__":
    sys.exit(main())
