"""A process that behaves like an engine, well or badly: fake_engine.py PORT HABIT...

Habits: `slow` answers 503 to the first three questions, `busy` to all, `silent` never listens, `deaf-once` ignores the
first SIGTERM, `deaf` ignores them all, `parent` has a child that would outlive it (its id is printed), `dies` prints
40 lines and exits with 3.
"""

import http.server
import signal
import subprocess
import sys
import time

port, habits = int(sys.argv[1]), sys.argv[2:]
asked, told = 0, 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        global asked
        asked += 1
        self.send_response(503 if "busy" in habits or ("slow" in habits and asked <= 3) else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def hear(number: int, frame: object) -> None:
    global told
    told += 1
    if "deaf" not in habits and told > 1:
        sys.exit(0)


if "dies" in habits:
    for line in range(40):
        print(f"line {line} of a long log")
    sys.exit(3)
if "parent" in habits:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(f"child {child.pid}", flush=True)
if "deaf" in habits or "deaf-once" in habits:
    signal.signal(signal.SIGTERM, hear)
if "silent" in habits:
    time.sleep(60)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
