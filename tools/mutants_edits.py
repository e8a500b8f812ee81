"""tools/mutants_edits.py -- the edits that tools/mutants makes: reads the functions of src/ and draws among their edits."""
import collections
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = "relation literal sum logic statement try check swap size".split()


def closing(code, start):
    """The offset behind the parenthesis that closes the one at `start`."""
    depth = 0
    for i in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0: return i + 1
    return len(code)


def blank(text):
    """Comments, texts, preprocessor lines and assertions become spaces; offsets stay."""
    spaces = lambda m: re.sub(r"[^\n]", " ", m[0])
    code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', spaces, text, flags=re.S)
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, code, flags=re.M)
    for m in re.finditer(r"\b(RP_BUG_IF|_Static_assert|static_assert)\(", code):
        end = closing(code, m.end() - 1)
        code = code[:m.start()] + re.sub(r"[^\n]", " ", code[m.start():end]) + code[end:]
    return code


def functions(code):
    """name, start and end of each function's body: functions begin in the first column, with a type or as a macro's: FILTER(name)."""
    for m in re.finditer(r"^(?:[a-z_][^;={}]*?\b|[A-Z]+\()(\w+)(?:\([^;{}]*\)|\))\s*(?:\n\{.*?^\}|\{[^\n]*\}$)", code, flags=re.M | re.S):
        yield m[1], code.index("{", m.end(1)), m.end()


def arguments(code, start, end):
    """Offsets of a call's arguments, between its parentheses."""
    depth, first, found = 0, start, []
    for i in range(start, end):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[i], 0)
        if code[i] == "," and depth == 0:
            found.append((first, i))
            first = i + 1
    return [(a + len(code[a:b]) - len(code[a:b].lstrip()), b) for a, b in found + [(first, end)] if code[a:b].strip()] if found else []


PLACE = r"\*?\w+(?:(?:->|\.)\w+|\[[^\[\]]*\])*"
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "+=": "-=", "-=": "+=", "&&": "||", "||": "&&"}
SIMPLE = {"relation": r" (<=|>=|==|!=|<|>) ", "sum": r"(?<=[\w)\]]) ([-+]=?) ", "logic": r" (&&|\|\|)(?=\s)"}


EXTENT = re.compile(r"^[ \t]+(?:static |const |unsigned |struct )*\w+ \**\w+\[$", re.M)      # what stands before the extent of a local array
COMPARES = ("strcmp", "strncmp", "strcasecmp", "memcmp")


def same_program(kind, code, start, new):
    """Whether the edit changes nothing that a program can show: a buffer that is one larger; the two texts that a comparison asks to be equal."""
    line = code[code.rfind("\n", 0, start) + 1:start]
    if kind == "literal": return EXTENT.search(line) is not None and code[start:].startswith(str(int(new) - 1) + "]")
    called = re.search(r"(?:^|[!(]|&& |\|\| )(\w+)\($", line)
    return kind == "swap" and called is not None and called[1] in COMPARES


def edits_of(code, text):
    """Each edit of a function's body that may change the program: kind, start, end, new text."""
    return (e for e in all_edits(code, text) if not same_program(e[0], code, e[1], e[3]))


def all_edits(code, text):
    for kind, pattern in SIMPLE.items():
        for m in re.finditer(pattern, code): yield kind, m.start(1), m.end(1), OTHER[m[1]]
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", code):
        yield "literal", m.start(), m.end(), str(int(m[1]) + 1)
        if m[1] != "0": yield "literal", m.start(), m.end(), str(int(m[1]) - 1)
    for m in re.finditer(rf"(?:^[ \t]+|\) |else |\{{ |; )({PLACE}\s*(?:[-+*/%|&^]|<<|>>)?= [^;{{}}]*;|{PLACE}(?:\+\+|--);|[a-z_]\w*\([^;{{}}]*\);)", code, flags=re.M):
        before = code[:m.start(1)]
        if before.count("(") == before.count(")") and m[1].count("(") == m[1].count(")"): yield "statement", m.start(1), m.end(1), ";"
    for m in re.finditer(r"\b(RP_TRY|RP_CHECK|[a-z]\w*)\(", code):
        end = closing(code, m.end() - 1)
        if m[1] == "RP_TRY": yield "try", m.start(), end, "(void)(" + text[m.end():end]
        elif m[1] == "RP_CHECK": yield "check", m.start(), end, "(void)0"
        elif m[1] not in ("if", "for", "while", "switch", "sizeof", "return"):
            parts = arguments(code, m.end(), end - 1)
            for (a, b), (c, d) in zip(parts, parts[1:]):
                if text[a:b] != text[c:d]: yield "swap", a, d, text[c:d] + text[b:c] + text[a:b]
            if m[1].endswith("_bytes"): yield "size", m.start(), end, "(" + text[m.start():end] + " / 2)"
    for m in re.finditer(r"\bsizeof (?:\(\w[\w *]*\)|\*?\w+(?:(?:->|\.)\w+)*)", code): yield "size", m.start(), m.end(), "(" + m[0] + " / 2)"


def draw(seed, folders):
    """Endless rounds over the folders; each folder goes through the kinds in turn. The first that serves is taken: yields lists of candidates."""
    cells = collections.defaultdict(list)
    for folder in folders:
        for path in sorted((ROOT / "src" / folder).glob("*.c")):
            text = path.read_text()
            code = blank(text)
            for name, start, end in functions(code):
                for kind, a, b, new in edits_of(code[start:end], text[start:end]):
                    a, b = a + start, b + start
                    cells[folder, kind].append(dict(
                        id=f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, a) + 1}:{a - text.rfind(chr(10), 0, a)}:{kind}:{new}", folder=folder, kind=kind,
                        function=name, file=str(path.relative_to(ROOT)), lines=[text.count(chr(10), 0, start) + 1, text.count(chr(10), 0, end) + 1], start=a, end=b, old=" ".join(text[a:b].split()), new=new))
    for cell, found in cells.items(): random.Random(f"{seed}/{cell}").shuffle(found)
    turn = 0
    while any(cells.values()):
        for i, folder in enumerate(folders):
            kinds = [KINDS[(turn + i + k) % len(KINDS)] for k in range(len(KINDS))]
            cell = next((cells[folder, k] for k in kinds if cells[folder, k]), None)
            if cell: yield cell
        turn += 1
