"""Feeds hostile traces to the decoder and the judge, in a limited child process.

python tests/fuzz/decoder_fuzz.py --cpu-minutes 10 --seed 0

A finding is an exception other than `TraceError` out of `decode`, a crash, a case that takes too
long, memory out of proportion to the input, or the judge's `internal_error`. Each is saved with its
bytes; a saved case is run again with `--replay FILE`. Exit code 1 when there are findings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trace_mutations import mutated
from trace_seeds import Seed, seeds

from accelopt.evaluation import ALL_STAGES
from accelopt_simulator.hardware import TRN1, TRN1_TIMING
from accelopt_simulator.judge import Judge
from accelopt_simulator.trace.codec import decode
from accelopt_simulator.trace.errors import TraceError

MEMORY_BYTES = 4 << 30
CASE_CPU_S = 20
DECODE_BYTES = 64 << 20
"""What decoding may add to the process, beside a multiple of the input."""
DECODE_FACTOR = 40
BATCH = 200
GENERATOR_FAILED = 97


@dataclass
class Report:
    """What a run of the fuzzer saw."""

    cases: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, finding: dict[str, Any], data: bytes) -> None:
        """Note a finding; of equal ones the first is kept."""
        self.findings.setdefault(finding["key"], finding | {"count": 0, "data": data})
        self.findings[finding["key"]]["count"] += 1


def run_case(judge: Judge, seed: Seed, data: bytes) -> tuple[str, dict[str, Any] | None]:
    """Status of one case, and what is wrong with it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        decode(data)
    except TraceError:
        status = "refused"
    except BaseException as error:  # noqa: BLE001 - that is what we look for
        return "decode", _finding("decode", error)
    else:
        status = "decoded"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > DECODE_BYTES + DECODE_FACTOR * len(data):
        return "decode", {"key": "decode: memory", "detail": f"{grown} for {len(data)} bytes"}
    if status == "refused":
        return status, None
    try:
        verdict = judge.judge(seed.task, data, ALL_STAGES, seed.task.seeds[:1])
    except BaseException as error:  # noqa: BLE001
        return "judge", _finding("judge", error)
    for diagnostic in verdict.diagnostics:
        if diagnostic.rule == "internal_error":
            return "internal_error", _again(judge, seed, data, diagnostic.message)
    return verdict.status.value, None


def _again(judge: Judge, seed: Seed, data: bytes, message: str) -> dict[str, Any]:
    """Where an internal error comes from: the judge's steps once more, without its safety net."""
    from accelopt_simulator.trace.analysis import Analysis

    trace = decode(data)
    try:
        judge._judge(seed.task, trace, Analysis(trace), "", ALL_STAGES, seed.task.seeds[:1])
    except BaseException as error:  # noqa: BLE001
        return _finding("internal_error", error)
    return {"key": f"internal_error: {message[:100]}", "detail": ""}


def _finding(kind: str, error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    place = next(
        (f"{Path(f.filename).name}:{f.name}:{f.lineno}" for f in reversed(frames)
         if "accelopt" in f.filename), "?",
    )  # fmt: skip
    return {
        "key": f"{kind}: {type(error).__name__} at {place}",
        "detail": f"{error}"[:200],
        "traceback": "".join(traceback.format_exception(error))[-3000:],
    }


def cases(rng_seed: str, corpus: list[Seed]) -> Any:
    """Endless (seed, bytes) pairs, the same for the same seed."""
    rng = random.Random(rng_seed)
    light = [s for s in corpus if not s.heavy]
    heavy = [s for s in corpus if s.heavy]
    everything = [s.data for s in corpus]
    while True:
        seed = rng.choice(heavy) if heavy and rng.random() < 0.04 else rng.choice(light)
        # Columns are spliced from any trace; the case itself starts from the seed's own.
        yield seed, mutated(rng, seed.data, everything)


def _child(write_end: int, batch: str, corpus: list[Seed], skip: set[int]) -> None:
    """Run one batch; announces every case before it starts, and its result after."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    judge = Judge(TRN1, TRN1_TIMING)
    with os.fdopen(write_end, "w") as out:
        stream = cases(batch, corpus)
        for number in range(BATCH):
            seed, data = next(stream)
            if number in skip:
                continue
            out.write(json.dumps({"start": number}) + "\n")
            out.flush()
            signal.setitimer(signal.ITIMER_PROF, CASE_CPU_S)
            started = time.process_time()
            status, finding = run_case(judge, seed, data)
            signal.setitimer(signal.ITIMER_PROF, 0)
            took = time.process_time() - started
            out.write(json.dumps({"status": status, "finding": finding, "cpu_s": took}) + "\n")
            out.flush()


def run_batch(batch: str, corpus: list[Seed], report: Report) -> None:
    """Run a batch in children; a case that kills its child is a finding and is left out next."""
    skip: set[int] = set()
    while True:
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read_end)
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
                _child(write_end, batch, corpus, skip)
                os._exit(0)
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
                os._exit(GENERATOR_FAILED)
        os.close(write_end)
        current = -1
        with os.fdopen(read_end) as lines:
            for line in lines:
                item = json.loads(line)
                if "start" in item:
                    current = item["start"]
                    continue
                report.cases += 1
                skip.add(current)
                status = item["status"]
                report.statuses[status] = report.statuses.get(status, 0) + 1
                if item["finding"]:
                    report.add(item["finding"] | {"case": f"{batch}/{current}"},
                               _case(batch, current, corpus)[1])  # fmt: skip
        _, code = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(code)
        if code == 0:
            return
        if code == GENERATOR_FAILED:
            raise RuntimeError(f"the fuzzer itself failed in batch {batch}")
        report.cases += 1
        skip.add(current)
        kind = "hang" if code == -signal.SIGPROF else f"crash ({code})"
        seed, data = _case(batch, current, corpus)
        report.add(
            {"key": f"{kind}: {seed.name}", "case": f"{batch}/{current}", "detail": ""}, data
        )


def _case(batch: str, number: int, corpus: list[Seed]) -> tuple[Seed, bytes]:
    stream = cases(batch, corpus)
    for _ in range(number):
        next(stream)
    found: tuple[Seed, bytes] = next(stream)
    return found


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fuzz(*, seed: int, cpu_s: float, batches: int | None = None, corpus: list[Seed]) -> Report:
    """Run batches until the CPU time or their number is used up."""
    report = Report()
    number = 0
    before = _children_cpu_s()
    while batches is None or number < batches:
        if _children_cpu_s() - before > cpu_s:
            break
        run_batch(f"{seed}:{number}", corpus, report)
        number += 1
    return report


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu-minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    corpus = seeds()
    if options.replay:
        name, _, data = options.replay.read_bytes().partition(b"\n")
        seed = next(s for s in corpus if s.name == name.decode())
        print(run_case(Judge(TRN1, TRN1_TIMING), seed, data))
        return 0
    started = time.monotonic()
    report = fuzz(seed=options.seed, cpu_s=60 * options.cpu_minutes, corpus=corpus)
    cpu = _children_cpu_s()
    print(f"{len(corpus)} seeds, {report.cases} cases, {cpu / 60:.1f} CPU minutes, "
          f"{report.cases / max(cpu, 1e-9):.0f} cases/CPU-s, "
          f"{time.monotonic() - started:.0f} s")  # fmt: skip
    print(", ".join(f"{k}: {v}" for k, v in sorted(report.statuses.items())))
    print(f"{len(report.findings)} findings")
    for key, finding in sorted(report.findings.items(), key=lambda i: -i[1]["count"]):
        options.out.mkdir(parents=True, exist_ok=True)
        path = options.out / (hashlib.sha256(key.encode()).hexdigest()[:12] + ".case")
        batch, _, number = finding["case"].rpartition("/")
        name = _case(batch, int(number), corpus)[0].name
        path.write_bytes(name.encode() + b"\n" + finding["data"])
        print(f"{finding['count']:6d}  {key}  [{finding['detail']}]  {path}")
        if "traceback" in finding:
            path.with_suffix(".txt").write_text(finding["traceback"])
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
