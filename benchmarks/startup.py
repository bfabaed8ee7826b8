"""How long the cheap things take: `import accelopt` and `accelopt --help`, in fresh processes."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

TARGETS_S = {"import accelopt": 0.5, "accelopt --help": 1.0}


def seconds(command: list[str], repeats: int) -> float:
    """Median wall time of a command, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    script = Path(sys.executable).parent / "accelopt"
    commands = {
        "import accelopt": [sys.executable, "-I", "-c", "import accelopt"],
        "accelopt --help": [str(script), "--help"],
    }
    result = {name: seconds(command, options.repeats) for name, command in commands.items()}
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<18} {value:6.3f} s   target {TARGETS_S[name]:.1f} s")


if __name__ == "__main__":
    main()
