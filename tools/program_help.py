"""tools/program_help.py -- what the program says of itself: its commands, their options, the keys of recipes. For man pages and completions."""
import os, re, subprocess


def run(program, *words):
    environment = {**os.environ, "LC_ALL": "C", "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, *words], capture_output=True, text=True, check=True, env=environment).stdout


class Option:
    """`-o, --output FILE   where to put it`"""
    LINE = re.compile(r"  (?:-(?P<letter>\w), |    )--(?P<name>[\w-]+)(?: (?P<value>\S+))?  +(?P<help>.*)")

    def __init__(self, match):
        self.letter, self.name, self.value, self.help = (match[k] for k in ("letter", "name", "value", "help"))


class Command:
    def __init__(self, program, name, summary):
        self.name, self.summary = name, summary
        usage, about, options = (run(program, name, "--help") + "\n").split("\n\n", 2)
        self.usage = usage.removeprefix(f"usage: reprise {name}").strip()
        self.about = about
        options, _, self.example = options.rstrip("\n").partition("\n\nexample: ")
        if not self.example:
            raise SystemExit(f"'reprise {name} --help' has no example")
        lines = [line for line in options.splitlines() if line.strip()]
        found = [Option.LINE.fullmatch(line) for line in lines]
        if not all(found):
            raise SystemExit(f"'reprise {name} --help' has a line that is no option: {lines[found.index(None)]}")
        self.options = [Option(m) for m in found]

    @property
    def takes_recipe(self):
        return self.usage.startswith("CONFIG")

    @property
    def takes_name(self):
        return self.usage.startswith("NAME") and self.name in ("cp", "cat")

    @property
    def takes_settings(self):
        return "KEY=VALUE" in self.usage


class Key:
    """A row of `reprise validate --keys`; words: what it may be, where that is one of a few."""

    def __init__(self, name, value, default, help):
        self.name, self.value, self.default, self.help = name, value, default, help
        parts = re.split(r", | or ", value)
        plain = all(re.fullmatch(r"[a-z0-9_]+", p) for p in parts) and len(parts) > 1
        self.words = parts if plain else []


class Program:
    def __init__(self, path):
        overview = run(path, "--help")
        rows = re.findall(r"^  (\w+) +(.*)$", overview, re.M)
        self.version = run(path, "--version").split()[1]
        self.summary = overview.split("\n\n")[1].strip()
        self.commands = [Command(path, *row) for row in rows]
        table = run(path, "validate", "--keys")
        self.keys = [Key(*m) for m in re.findall(r"^\| `([\w.]+)` \| (.*?) \| `(.*?)` \| (.*) \|$", table, re.M)]
        self.after_keys = table.rsplit("|\n", 1)[1] if "|\n" in table else ""
        if not self.commands or not self.keys:
            raise SystemExit(f"'{path}' does not tell its commands and keys")
