"""Files full of names that drive a terminal, and every command on them: none of it may come out, on stdout, on stderr or on a terminal."""
import json, os, pty, re, struct, subprocess, sys

SOURCE = sys.argv[1]
BAD = "\x1b[31m\x1b]0;x\x07\x9b2J\x85\u202e\u2066\u200f\u2028\u061c\r\x7f"
RAW = BAD.encode() + b"\xff\xc3"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")
TINY = f"{SOURCE}/recipes/tiny_llama"
seen = 0


def check(what, data):
    try:
        found = FORBIDDEN.search(data.decode())
    except UnicodeDecodeError as e:
        found = e
    if found:
        sys.exit(f"{what}: {found} in {data!r}")


def run(*words, input=b""):
    global seen
    done = subprocess.run(["reprise", *words], input=input, capture_output=True, timeout=60)
    if done.returncode not in (0, 1, 2, 3):
        sys.exit(f"{words}: exit {done.returncode}: {done.stderr!r}")
    check(words, done.stdout)
    check(words, done.stderr)
    seen += bool(done.stdout or done.stderr)
    return done.stdout


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def safetensors(path, name, extra=None):
    head = json.dumps({"__metadata__": {BAD: BAD, **(extra or {})}, name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, ensure_ascii=False).encode()
    write(path, struct.pack("<Q", len(head)) + head + b"\0\0\0\0")


def gguf(path, key, text, tensor):
    string = lambda b: struct.pack("<Q", len(b)) + b
    pairs = [(b"general.architecture", 8, string(b"llama" + text[:0])), (key, 8, string(text)), (b"llama." + key, 4, struct.pack("<I", 7)),
             (b"tokenizer.ggml.model", 8, string(text))]
    data = b"GGUF" + struct.pack("<IQQ", 3, 1, len(pairs)) + b"".join(string(k) + struct.pack("<I", t) + v for k, t, v in pairs)
    data += string(tensor) + struct.pack("<IQIQ", 1, 1, 0, 0)
    write(path, data + b"\0" * (-len(data) % 32) + b"\0" * 32)


def models():
    safetensors("st/model.safetensors", "layer" + BAD)
    write("st/config.json", json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama" + BAD, BAD: BAD, "hidden_size": BAD}, ensure_ascii=False))
    safetensors("st2/model.safetensors", "layer" + BAD)
    config = json.load(open(f"{SOURCE}/tests/golden/models/smollm2/config.json"))
    write("st2/config.json", json.dumps({**config, BAD: BAD, "torch_dtype": BAD}, ensure_ascii=False))
    write("bad_json/config.json", b'{"a' + RAW + b'": 1}')
    safetensors("alone.safetensors", "x\nreprise: all is well" + BAD)
    for i, (key, text, tensor) in enumerate([(BAD.encode(), BAD.encode(), BAD.encode()), (RAW, RAW, RAW), (b"k", RAW, b"t")]):
        gguf(f"m{i}.gguf", key, text, tensor)
    folders = ["st", "st2", "bad_json", "alone.safetensors", "m0.gguf", "m1.gguf", "m2.gguf", "absent" + BAD]
    for model in folders:
        run("inspect", model)
        run("inspect", model, "--json")
        run("eval", model, "--data", "text")
        run("generate", model, "-p", BAD)
        run("tokenize", model, input=RAW)
        run("validate", "tiny_from_scratch", "~model.config", f"model.path={model}")
        run("plan", "tiny_from_scratch", "~model.config", f"model.path={model}")
        run("train", "tiny_from_scratch", "~model.config", f"model.path={model}", "dataset.path=text")


def tokenizers():
    tokenizer = json.load(open(f"{TINY}/tokenizer.json"))
    wrong = [{**tokenizer, "model": {"type": "BPE" + BAD}}, {**tokenizer, "pre_tokenizer": {"type": BAD}}, {**tokenizer, "decoder": {"type": BAD}},
             {**tokenizer, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(" + BAD}, "behavior": "Isolated"}},
             {**tokenizer, "added_tokens": [{"id": 7, "content": BAD}]}, {**tokenizer, "model": {"type": "BPE", "vocab": {BAD: 0}, "merges": [BAD]}}]
    for i, t in enumerate(wrong):
        write(f"t{i}/tokenizer.json", json.dumps(t, ensure_ascii=False))
        run("tokenize", f"t{i}", input=b"abc")
        run("inspect", f"t{i}")
    write("t9/tokenizer.json", b'{"model": "' + RAW + b'"}')
    run("tokenize", "t9", input=b"abc")


def templates():
    small = f"{SOURCE}/tests/golden/models/smollm2"
    for name in "config.json", "model.safetensors":
        write(f"chat/{name}", open(f"{small}/{name}", "rb").read())
    write("chat/tokenizer.json", open(f"{TINY}/tokenizer.json", "rb").read())
    talk = json.dumps({"messages": [{"role": "us" + BAD, "content": BAD}, {"role": "assistant", "content": BAD}], BAD: BAD}, ensure_ascii=False)
    write("talk.jsonl", talk)
    write("wrong.jsonl", json.dumps({"messages" + BAD: 1}, ensure_ascii=False))
    for text in ["{{ raise_exception('%s') }}" % BAD, "{{ 'x' | f%s }}" % BAD, "{%% %s %%}" % BAD, "{{ x%s }}" % BAD, "{{ messages[0].role }}", "{{ a['%s'] }}" % BAD]:
        write("chat/chat_template.jinja", text)
        run("generate", "chat", "-p", "A", "--chat", "-n", "1")
        for data in "talk.jsonl", "wrong.jsonl":
            run("train", "tiny_from_scratch", "model.config=chat/config.json", "tokenizer.path=chat", f"dataset.path={data}", "dataset.format=chat",
                "dataset.column=" + BAD, "max_seq_len=16")
            run("train", "tiny_from_scratch", "model.config=chat/config.json", "tokenizer.path=chat", f"dataset.path={data}", "dataset.format=chat", "max_seq_len=16")


def recipes():
    quoted = json.dumps(BAD)                    # YAML reads its escapes
    write("r0.yaml", f'{quoted}: 1\nmodel: {{config: {quoted}}}\noutput_dir: {quoted}\n')
    write("r1.yaml", b"model: {config: " + RAW + b"}\n")
    write("r2.yaml", f'model: {{config: {TINY}/config.json}}\nactivation_checkpointing: {{rules: [{{path: {quoted}, fate: {quoted}}}], mode: {quoted}}}\n')
    write("r3.yaml", f'model: {{config: {TINY}/config.json}}\nactivation_checkpointing: {{conditions: [{{plugin: {{library: {quoted}, symbol: {quoted}}}}}]}}\n')
    write("r4.yaml", f'model: {{config: {TINY}/config.json}}\ntokenizer: {{path: {TINY}/tokenizer.json}}\ndataset: {{path: text}}\nmax_steps: 1\nmax_seq_len: 16\noutput_dir: {quoted}\n')
    for i in range(5):
        for command in (["validate"], ["validate", "--resolved"], ["plan"], ["plan", "--json"], ["explain"], ["explain", "--json"], ["sweep", "-n", "2"], ["train"]):
            run(*command, f"r{i}.yaml")
            run(*command, f"r{i}.yaml", "--allow-plugins")
    run("validate", "tiny_from_scratch", "seed=" + BAD, BAD + "=1", "~" + BAD)
    run("view", "absent" + BAD)
    write("plan.json", json.dumps({"format": BAD, BAD: BAD}, ensure_ascii=False))
    run("view", "plan.json")
    for command in "cat", "cp", "bench", "download", BAD, "--" + BAD:
        run(command, BAD)


def on_a_terminal(*words):
    """What a terminal gets; its own newlines are \\r\\n."""
    parts = []
    child, fd = pty.fork()
    if child == 0:
        os.execvp("reprise", ["reprise", *words])
    while True:
        try:
            parts.append(os.read(fd, 65536))
        except OSError:
            break
        if not parts[-1]:
            break
    os.waitpid(child, 0)
    return b"".join(parts).replace(b"\r\n", b"\n")


def models_output():
    """A model of random weights draws from all bytes: a terminal gets them visible, a pipe as they are."""
    words = ["generate", "chat", "-p", "A", "-n", "400", "-t", "1000", "-k", "0", "dtype=fp32"]
    piped = subprocess.run(["reprise", *words], capture_output=True, check=True).stdout.decode()
    if not FORBIDDEN.search(piped):
        sys.exit("the model drew no control: nothing was tried")
    shown = on_a_terminal(*words)
    check(words, re.sub(rb"^\r", b"", shown))
    visible = re.sub(FORBIDDEN, lambda m: "\\u%04x" % ord(m[0]), piped)
    if visible.strip("\n") not in shown.decode():
        sys.exit(f"a terminal got {shown!r}, not {visible!r}")


write("text", b"one two three four five six seven eight " * 9)
models()
tokenizers()
templates()
recipes()
models_output()
print("nothing that drives a terminal came out" if seen > 150 else f"{seen} commands said something")
