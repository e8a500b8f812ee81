#!/usr/bin/env python3
"""Write src/io/unicode_sets.def: where sets of characters that the `tokenizers` package uses differ from general categories.

Needs Python 3.11 (whose unicodedata is Unicode 14, as utf8proc 2.8 is) and the `tokenizers` package, which is asked code
point by code point. Its normalizers and pre-tokenizers follow several Unicodes, from 8 to 16.

    python tools/gen_unicode_sets.py > src/io/unicode_sets.def
"""
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from gen_unicode_late import ranges

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORY = {c: unicodedata.category(chr(c)) for c in POINTS}


def bert(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def dropped(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("x%sx" % chr(c)) == "xx"}


def cut_out(pre):
    return {c for c in POINTS if len(pre.pre_tokenize_str("x%sx" % chr(c))) == 3}


def of(*categories):
    return {c for c in POINTS if CATEGORY[c].startswith(categories)}


def main():
    assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
    print("/* Where tokenizers %s departs from the general categories of Unicode 14. Made by tools/gen_unicode_sets.py.\n"
          " * RP_IN and RP_OUT(set, first, last): characters that the set has or lacks against its categories. RP_LOWER(from, to): lower case\n"
          " * that came later; RP_CJK: what BertNormalizer puts spaces around. */" % tokenizers.__version__)
    sets = [("punctuation", cut_out(pre_tokenizers.Punctuation()), of("P")),
            ("dropped", dropped(bert(clean_text=True)), of("Cc", "Cf", "Co")),
            ("nonspacing", dropped(bert(strip_accents=True)), of("Mn")),
            ("mark", dropped(normalizers.StripAccents()), of("M"))]
    for name, members, rule in sets:
        for first, last in ranges(members - rule):
            print("RP_IN(%s, 0x%05x, 0x%05x)" % (name, first, last))
        for first, last in ranges(rule - members):
            print("RP_OUT(%s, 0x%05x, 0x%05x)" % (name, first, last))
    lower = normalizers.Lowercase()
    for c in POINTS:
        text = lower.normalize_str(chr(c))
        if text != chr(c).lower():
            print("RP_LOWER(0x%05x, 0x%05x)" % (c, ord(text)))
    spaced = bert(handle_chinese_chars=True)
    for first, last in ranges({c for c in POINTS if len(spaced.normalize_str("x%sx" % chr(c))) == 5}):
        print("RP_CJK(0x%05x, 0x%05x)" % (first, last))


if __name__ == "__main__":
    sys.exit(main())
