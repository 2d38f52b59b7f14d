"""The disk, and the same disk with 3 ms added to every fsync."""

import os
import shutil
import subprocess
import sys
import time
from statistics import median

ADDED_MS = 3.0
SOURCE = os.path.join(os.path.dirname(__file__), "slow_fsync.c")


def slower(directory: str) -> dict[str, str] | str:
    """Return the environment of a process with a slower fsync, or the reason why there is none."""
    if not sys.platform.startswith("linux"):
        return "a slower fsync needs LD_PRELOAD, which needs Linux"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return "this machine has no C compiler (cc) for bench/slow_fsync.c"
    shim = os.path.join(directory, "slow_fsync.so")
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", shim, SOURCE, "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"bench/slow_fsync.c does not compile on this machine: {done.stderr.strip()[:200]}"
    found = subprocess.run(
        [sys.executable, "-c", f"from bench.disk import sync_ms; print(sync_ms({directory!r}, 5))"],
        env={**os.environ, "LD_PRELOAD": shim},
        capture_output=True,
        text=True,
        check=True,
    )
    if float(found.stdout) < ADDED_MS:
        return "bench/slow_fsync.c has no effect on this machine"
    return {"LD_PRELOAD": shim}


def sync_ms(directory: str, times: int = 50) -> float:
    """Return the milliseconds that one durable write of a page takes."""
    path = os.path.join(directory, "page")
    took = []
    with open(path, "wb") as file:
        for _ in range(times):
            file.write(bytes(4096))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - started) * 1000)
    os.unlink(path)
    return median(took)
