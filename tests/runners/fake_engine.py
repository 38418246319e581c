"""A process that behaves like an engine or a gateway, well or badly: fake_engine.py PORT HABIT...

Habits: `slow` answers 503 to the first three questions, `busy` to all, `silent` never listens, `deaf-once` ignores the
first SIGTERM, `deaf` ignores them all, `parent` has a child that would outlive it (its id is printed), `dies` prints
40 lines and exits with 3. `mortal` exits with 4 when it is asked for a completion, `nameless` lists no model.
`behind=URL` passes on what it is asked. With $JOURNAL, `name=NAME` writes there when NAME begins and ends.
"""

import http.server
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

port, habits = int(sys.argv[1]), sys.argv[2:]
asked, told = 0, 0
given = dict(habit.split("=", 1) for habit in habits if "=" in habit)
MODELS = b'{"object": "list", "data": [%s]}' % (
    b"" if "nameless" in habits else b'{"id": "tiny/fake", "object": "model"}'
)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        global asked
        asked += 1
        if "behind" in given and self.path.startswith("/v1"):
            self.forward(None)
        else:
            code = 503 if "busy" in habits or ("slow" in habits and asked <= 3) else 200
            self.answer(code, MODELS if self.path == "/v1/models" else b"")

    def do_POST(self) -> None:
        if "mortal" in habits:
            os._exit(4)
        self.forward(self.rfile.read(int(self.headers["Content-Length"])))

    def forward(self, body: bytes | None) -> None:
        url = given["behind"].removesuffix("/v1") + self.path
        kind = {"Content-Type": "application/json"} if body else {}
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, kind)) as got:
                self.answer(got.status, got.read(), got.headers["Content-Type"])
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.read(), error.headers["Content-Type"])
        except OSError:
            self.answer(502, json.dumps({"error": {"message": "nobody is behind me"}}).encode())

    def answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def hear(number: int, frame: object) -> None:
    global told
    told += 1
    if "deaf" not in habits and told > 1:
        sys.exit(0)


def journal(what: str) -> None:
    if "JOURNAL" in os.environ and "name" in given:
        with Path(os.environ["JOURNAL"]).open("a", encoding="utf-8") as file:
            file.write(f"{given['name']} {what}\n")


def end(number: int, frame: object) -> None:
    journal("ends")
    sys.exit(0)


journal("begins")
if "dies" in habits:
    for line in range(40):
        print(f"line {line} of a long log")
    sys.exit(3)
if "parent" in habits:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(f"child {child.pid}", flush=True)
if "deaf" in habits or "deaf-once" in habits:
    signal.signal(signal.SIGTERM, hear)
if "name" in given:
    signal.signal(signal.SIGTERM, end)
if "silent" in habits:
    time.sleep(60)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
