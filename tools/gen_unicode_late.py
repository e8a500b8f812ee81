#!/usr/bin/env python3
"""Write src/tokenizer/unicode_late.def: characters that the `tokenizers` package knows and Unicode 14 (PCRE2 10.42) does not.

Needs Python 3.11 (whose unicodedata is Unicode 14) and the `tokenizers` package, which is asked code point by code point:
its regex engine for general categories and Han, and its `Digits` pre-tokenizer, which follows a later Unicode, for numbers.
Its normalizers follow Unicode 9: what came later and would reorder, decompose or compose is listed as inert.

    python tools/gen_unicode_late.py > src/tokenizer/unicode_late.def
"""
import sys
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Cf".split()


def blocks():
    for base in range(0, 0x110000, 1024):
        yield [c for c in range(base, base + 1024) if not 0xD800 <= c < 0xE000]


def members(pattern):
    """The code points of which the pattern matches each by itself."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for block in blocks():
        kept = set("".join(piece for piece, _ in split.pre_tokenize_str("".join(map(chr, block)))))
        found |= {c for c in block if chr(c) not in kept}
    return found


def digits():
    split = pre_tokenizers.Digits(individual_digits=True)
    found = set()
    for block in blocks():
        text = "A" + "A".join(chr(c) for c in block if c != 0x41) + "A"
        found |= {ord(p) for p, _ in split.pre_tokenize_str(text) if len(p) == 1 and p != "A"}
    return found


def ranges(points):
    run = []
    for c in sorted(points):
        if run and c == run[-1] + 1:
            run.append(c)
            continue
        if run:
            yield run[0], run[-1]
        run = [c]
    if run:
        yield run[0], run[-1]


def inert(late):
    """Code points that have normalization properties, but not for the package."""
    forms = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()]

    def is_inert(c):
        text = "a%s\u0323\u0301%s\u1161"
        return all(f.normalize_str(text % (chr(c), chr(c))) == f.normalize_str(text % ("\ue000", "\ue000")).replace("\ue000", chr(c))
                   for f in forms)

    found = {c for c in range(0x110000) if (c in late or unicodedata.combining(chr(c)) or unicodedata.decomposition(chr(c)))
             and not 0xAC00 <= c < 0xD7A4 and is_inert(c)}
    for c in sorted(found):
        parts = unicodedata.decomposition(chr(c)).split()
        if parts and not parts[0].startswith("<"):
            found |= {int(p, 16) for p in parts if is_inert(int(p, 16))}
    return found


def main():
    assert unicodedata.unidata_version == "14.0.0", "run this with Python 3.11"
    unassigned = {c for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn"}
    print("/* Assigned after Unicode 14, as tokenizers %s knows them. Made by tools/gen_unicode_late.py.\n"
          " * RP_LATE(first, last, general category, or Han for the script); RP_LATE_DIGIT: numbers that only the Digits\n"
          " * pre-tokenizer knows. RP_INERT: characters that its normalizers (Unicode 9) pass over. */" % tokenizers.__version__)
    regex_numbers = members(r"\p{N}")
    rows = [(first, last, category) for category in CATEGORIES
            for first, last in ranges(members(r"\p{%s}" % category) & unassigned)]
    rows += [(first, last, "Han") for first, last in ranges(members(r"\p{Han}") & unassigned)]
    for first, last, category in sorted(rows, key=lambda r: (r[2] == "Han", r[0])):
        print('RP_LATE(0x%05x, 0x%05x, "%s")' % (first, last, category))
    late = {c for first, last, category in rows for c in range(first, last + 1) if category not in ("Han", "So", "Sm", "Po")}
    for first, last in ranges(inert(late)):
        print("RP_INERT(0x%05x, 0x%05x)" % (first, last))
    for first, last in ranges(digits() - regex_numbers):
        print("RP_LATE_DIGIT(0x%05x, 0x%05x)" % (first, last))


if __name__ == "__main__":
    sys.exit(main())
