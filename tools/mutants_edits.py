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


EXTENT = re.compile(r"^[ \t]+(?:static |const |unsigned |struct )*(?!else\b|return\b)\w+ \**(\w+)\[$", re.M)      # before the extent of a local array
COMPARES = ("strcmp", "strncmp", "strcasecmp", "memcmp")
EQUALS = ("rp_meta_same", "rp_meta_same_shape")                 # whether two things are equal
ALLOCATES = ("rp__host_alloc", "rp__bump_alloc", "malloc", "calloc")


def around(code, at):
    """Each parenthesis that is open at an offset: its own offset and the name of the function that it calls, the innermost first."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(code[i], 0)
        if depth < 0:
            yield i, re.search(r"\w*$", code[:i])[0]
            depth = 0
        if code[i] == ";": return


def is_larger_block(code, start):
    """Whether a literal is a term or a factor of the size of an allocation, so that a larger literal asks for a larger block. The library counts
    allocations of host memory, not their bytes, and nothing reads behind the elements that it asks for."""
    for at, name in around(code, start):
        if name in ALLOCATES:
            end  = closing(code, at) - 1
            size = next(code[a:b] for a, b in arguments(code, at + 1, end) or [(at + 1, end)] if a <= start < b)
            return not re.search(r"[-/%<>&|^~!=\[]", size.replace("->", "."))
        if name not in ("", "sizeof"): return False
    return False


def only_asks_equal(code, start):
    """Whether the arguments that begin at `start` are those of a comparison whose order nobody reads: `strcmp(a, b)` as a condition."""
    called = re.search(r"(?:[!(]|&&|\|\|)\s*(\w+)\($", code[:start])
    if called is None or called[1] not in COMPARES: return False
    return re.match(r"\s*(?:[)&|?;,]|[!=]= 0\b)", code[closing(code, called.end() - 1):]) is not None


def is_larger_array(code, start, after):
    """Whether a literal is the whole extent of a local array, and nobody asks for its size but to print into it."""
    extent = EXTENT.search(code, code.rfind("\n", 0, start) + 1, start)
    if extent is None or code[after] != "]": return False
    others = re.sub(r"snprintf\((\w+), sizeof \1", "", code)
    return re.search(rf"(RP_COUNT\(|sizeof ){extent[1]}\b", others) is None


def same_program(kind, code, start, new):
    """Whether the edit changes nothing that a program can show.

    >>> def drawn(code): return [f"{code[:a]}{new}{code[b:]}" for kind, a, b, new in edits_of(code, code) if kind in ("literal", "swap")]
    >>> drawn("    p = rp__host_alloc(ctx, (n + 1) * (int64_t)sizeof *p);")[0]                   # a smaller block; a larger one serves as well
    '    p = rp__host_alloc(ctx, (n + 0) * (int64_t)sizeof *p);'
    >>> [e for e in drawn("    p = rp__host_alloc(ctx, n - 1);") if "n - 2" in e]                  # that is a smaller one
    ['    p = rp__host_alloc(ctx, n - 2);']
    >>> drawn("    char text[8];\\n    snprintf(text, sizeof text, s);")[0]                         # only the shorter one of an array to print into
    '    char text[7];\\n    snprintf(text, sizeof text, s);'
    >>> len(drawn("    char magic[4];\\n    read(fd, magic, sizeof magic);")) > len(drawn("    char magic[4];"))
    True
    >>> [drawn(f"    if ({asks}) go();") for asks in ("strcmp(a, b)", "!strcmp(a, b)", "strcmp(a, b) == 0")]
    [[], [], ['    if (strcmp(a, b) == 1) go();']]
    >>> drawn("    if (strcmp(a, b) < 0) go();")[-1]                                                # this one asks for the order
    '    if (strcmp(b, a) < 0) go();'
    >>> drawn("    same = rp_meta_same(a, b);") + drawn("    p = calloc(n, m);")
    []
    """
    if kind == "literal":
        was = re.match(r"\d+", code[start:])[0]
        return int(new) > int(was) and (is_larger_array(code, start, start + len(was)) or is_larger_block(code, start))
    if kind == "swap":
        called = re.search(r"(\w*)\($", code[:start])
        return only_asks_equal(code, start) or called is not None and called[1] in ("calloc", *EQUALS)       # calloc takes their product
    return False


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
