#!/usr/bin/env python3
"""tests/cli/hub/server.py FOLDER -- a hub on this machine: its API, and another host (another port) that holds the large files.

What a repository does wrong is in its name (see `behaviour` below). FOLDER/ports gets the two ports once both listen; FOLDER/log a line for
each request: which host, the path, the range, the token. It ends with the process that started it."""
import hashlib, http.server, json, os, random, sys, threading, time, urllib.parse

FOLDER = sys.argv[1]
TOKEN = "secret"
COMMIT = {"main": "1" * 40, "v2": "2" * 40, "refs/pr/1": "3" * 40}
draw = random.Random(0)
SMALL = {
    "config.json": b'{"model_type": "llama"}\n', "generation_config.json": b"{}\n", "tokenizer.json": b'{"model": {}}\n',
    "tokenizer_config.json": b"{}\n", "special_tokens_map.json": b"{}\n", "chat_template.jinja": b"{{ messages }}\n",
    "README.md": b"nobody needs this\n", "onnx/config.json": b"nor this\n",
}
WEIGHTS = draw.randbytes(300000)
INDEX = lambda *names: json.dumps({"weight_map": {f"tensor {i}": n for i, n in enumerate(names)}}).encode()
OTHERS = {
    "sharded": {"model.safetensors.index.json": INDEX("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
                "model-00001-of-00002.safetensors": WEIGHTS[:70000], "model-00002-of-00002.safetensors": WEIGHTS[70000:],
                "consolidated.safetensors": WEIGHTS},
    "no-map": {"model.safetensors.index.json": b"{}", "model-00001-of-00001.safetensors": WEIGHTS[:1000]},
    "cut-map": {"model.safetensors.index.json": b'{"weight_map":', "model-00001-of-00001.safetensors": WEIGHTS[:1000]},
    "piece-missing": {"model.safetensors.index.json": INDEX("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"),
                      "model-00001-of-00002.safetensors": WEIGHTS[:70000]},
    "gguf": {"tiny-q4.gguf": WEIGHTS[:5000], "deep/tiny q8 #1.gguf": WEIGHTS[:9000]},
    "torch": {"pytorch_model.bin": WEIGHTS},
    "leads-out": {"../../escaped.safetensors": b"no", "model.safetensors": WEIGHTS},
    "leads-out-absolute": {"/escaped.safetensors": b"no", "model.safetensors": WEIGHTS},
    "terminal": {"model.safetensors\x1b[2J": b"no", "model.safetensors": WEIGHTS},
}
counts, lock = {}, threading.Lock()


def files_of(name):
    return {**SMALL, **OTHERS.get(name, {"model.safetensors": WEIGHTS})}


def is_large(name):
    return name.endswith((".safetensors", ".gguf", ".bin"))


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(repo, name, data):
    e = {"rfilename": name}
    if repo in ("no-digests", "no-digests-wrong"):
        return e
    e.update(size=len(data), blobId=git_sha1(data))
    if is_large(name):
        e["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    if repo == "huge" and name == "model.safetensors":
        e["lfs"]["size"] = e["size"] = 10**18
    if repo == "longer" and name == "model.safetensors":
        e["lfs"]["size"] = 299990
    if repo == "shorter" and name == "model.safetensors":
        e["lfs"]["size"] = 300010
    return e


class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def note(self):
        token = self.headers.get("Authorization", "no token").replace("Bearer ", "token ")
        with lock, open(f"{FOLDER}/log", "a") as log:
            log.write(f"{self.host} {self.path} {self.headers.get('Range', 'all')}, {token}\n")

    def times(self, what):      # how often it was asked for, before
        with lock:
            counts[what] = counts.get(what, 0) + 1
            return counts[what] - 1

    def answer(self, code, body=b"", length=None, **headers):
        self.send_response(code)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code, why=""):
        self.answer(code, b"no", **({"X_Error_Code": why} if why else {}))


class Hub(Host):
    host = "hub"

    def do_GET(self):
        self.note()
        path = urllib.parse.urlparse(self.path).path.split("/")
        if path[1:3] == ["api", "models"] and len(path) == 7:
            self.listing(path[4], urllib.parse.unquote(path[6]))
        elif len(path) > 5 and path[3] == "resolve":
            self.resolve(path[2], "/".join(map(urllib.parse.unquote, path[5:])))
        else:
            self.refuse(404)

    def listing(self, repo, revision):
        known = self.headers.get("Authorization") == "Bearer " + TOKEN
        if repo == "gated" and not known:
            return self.refuse(403 if self.headers.get("Authorization") else 401, "GatedRepo")
        if repo == "private" and not known:
            return self.refuse(401, "RepoNotFound")
        if repo == "nowhere":
            return self.refuse(404, "RepoNotFound")
        if revision not in COMMIT:
            return self.refuse(404, "RevisionNotFound")
        if repo == "busy" and self.times("busy list") < 2:
            return self.answer(429, b"slowly", Retry_After="0")
        if repo == "down":
            return self.refuse(503)
        if repo == "no-json":
            return self.answer(200, b"<html>sign in to this network</html>")
        if repo == "no-list":
            return self.answer(200, b'{"siblings": {}}')
        if repo == "nameless":
            return self.answer(200, b'{"siblings": [{}]}')
        if repo == "crowded":
            return self.answer(200, json.dumps({"siblings": [{"rfilename": "x"}] * 20001}).encode())
        if repo == "deep":
            return self.answer(200, b"[" * 100000)
        text = json.dumps({"sha": COMMIT[revision], "siblings": [entry(repo, n, d) for n, d in files_of(repo).items()]})
        self.answer(200, text.encode())

    def resolve(self, repo, name):
        data = files_of(repo).get(name)
        if data is None:
            return self.refuse(404, "EntryNotFound")
        if repo == "busy" and self.times(name) < 1:
            return self.refuse(503)
        if is_large(name):
            target = f"http://127.0.0.1:{ports[1]}/{repo}/{urllib.parse.quote(name)}?signature=x"
            if repo == "in-circles":
                target = self.path
            return self.answer(302, X_Linked_ETag='"%s"' % hashlib.sha256(data).hexdigest(), X_Linked_Size=str(len(data)), Location=target)
        self.answer(200, data, ETag='W/"%s"' % git_sha1(data))


class Store(Host):
    host = "store"

    def do_GET(self):
        self.note()
        path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path).split("/", 2)
        self.send(path[1], path[2])

    def send(self, repo, name):
        data, asked = files_of(repo)[name], self.headers.get("Range")
        if repo.endswith("wrong") or (repo == "wrong-once" and self.times("wrong-once") == 0):
            data = data[:1000] + b"wrong" + data[1005:]
        start = int(asked[6:-1]) if asked and repo != "no-ranges" else 0
        if start >= len(data):
            return self.answer(416)
        headers = {"Content_Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        if repo == "other-range" and start:
            headers["Content_Range"] = f"bytes {start + 1}-{len(data) - 1}/{len(data)}"
        rest = data[start:]
        if repo == "drops" or (repo == "no-ranges" and self.times("no-ranges") == 0):
            self.answer(206 if start else 200, rest[:100000], len(rest), **headers)
            self.close_connection = True
            return
        if repo == "slow":
            return self.trickle(rest, 206 if start else 200, headers)
        self.answer(206 if start else 200, rest, **headers)

    def trickle(self, rest, code, headers):
        self.answer(code, rest[:3000], len(rest), **headers)
        for at in range(3000, len(rest), 3000):
            time.sleep(0.02)
            self.wfile.write(rest[at:at + 3000])


def end_with_parent(parent):
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), host) for host in (Hub, Store)]
for s in servers:
    s.daemon_threads = True
    s.handle_error = lambda *args: None         # clients that go away are part of it
ports = [s.server_address[1] for s in servers]
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
with open(f"{FOLDER}/ports.new", "w") as f:
    print(*ports, file=f)
os.rename(f"{FOLDER}/ports.new", f"{FOLDER}/ports")
servers[0].serve_forever()
