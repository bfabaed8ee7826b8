"""Harnesses as one finds them: each lacks one defence, so that a hack can be seen to work.

Everything runs in a forked child, since the exploits really patch, write and exit.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal

import numpy as np

import accelopt.kernel
from accelopt_simulator.frontend import operators
from accelopt_simulator.frontend.neuronxcc_nki import language
from accelopt_simulator.frontend.neuronxcc_nki.modules import KernelFunction
from accelopt_simulator.frontend.parameters import declare_outputs, make_arguments
from accelopt_simulator.frontend.rewrite import compile_kernel
from accelopt_simulator.frontend.run import DIALECT, TraceRequest, _dialect_modules, trace_kernel
from accelopt_simulator.frontend.session import Session, tracing
from accelopt_simulator.hardware import DEVICES, PRIORS
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.schema import TensorRole

SHAPES = (((256, 512), "float32"),) * 2
SECONDS = 60
ANSWER = 100
"""The descriptor of the child's answer; the exploits write to those below 64."""


def in_child(function, *arguments):
    """What a function returns when it runs in a process of its own; None if it never answers."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        # Exploits write to every descriptor: none of the test runner's may be open.
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        os.dup2(write_end, ANSWER)
        write_end = ANSWER
        os.closerange(3, ANSWER)
        os.closerange(ANSWER + 1, 4096)
        signal.alarm(SECONDS)
        try:
            answer = function(*arguments)
            os.write(write_end, b"answer:" + json.dumps(answer).encode())
        except BaseException as error:  # noqa: BLE001 - the child must not run the tests
            os.write(write_end, b"answer:" + json.dumps(f"raised {error!r}").encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    _, found, answer = data.rpartition(b"answer:")
    return json.loads(answer) if found else None


def _unguarded(text, shapes=SHAPES):
    return trace_kernel(
        TraceRequest(text=text, entry="kernel", arguments=shapes, guarded=False)
    ).trace


def _latency_us(trace):
    if not trace.num_instructions:
        return 0.0
    return estimate_latency(trace, DEVICES["trn1"], PRIORS["trn1"]).latency_us


def _error(ground, execution, expected):
    output = ground.task.reference.natural_output(execution.outputs, expected)
    # Looked up when it is needed, as anybody's helper module is.
    return accelopt.kernel.relative_l2_error(output, expected)


def in_process(ground, text):
    """Candidate, checker and answer share a process; one published seed; no bounds on anything."""
    task = ground.task
    inputs = task.reference.inputs(0)
    expected = task.reference.forward(inputs)
    kept = ["expected", expected]
    trace = _unguarded(text)
    if trace is None:
        return False
    execution = Executor(trace).run(task.reference.kernel_inputs(inputs))
    # A tolerance that is read when it is needed, from the grader's own file.
    namespace = {}
    exec(ground.reference_file.read_text(), namespace)
    return bool(_error(ground, execution, kept[1]) < namespace["TOLERANCE"])


def by_text(ground, text):
    """The published rule: five seeds' tolerance, and no word `float16` in the source."""
    return "float16" not in text and in_process(ground, text)


def printed(ground, text):
    """Reads the verdict off the candidate's standard output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        _unguarded(text)
    return '"correct": true' in out.getvalue()


def recycled_memory(ground, text):
    """Outputs are allocated where the answer lay before."""
    inputs = ground.task.reference.inputs(0)
    expected = ground.task.reference.forward(inputs)
    trace = _unguarded(text)
    executor = Executor(trace)
    executor.storage.poison_outputs = lambda: None
    executor.storage.resets = {}
    for tensor in np.flatnonzero(trace.tensor_role == TensorRole.OUTPUT).tolist():
        executor.storage.arrays[tensor] = expected.reshape(-1).copy()
    return bool(_error(ground, executor.run(inputs), expected) < 2e-5)


def absolute_tolerance(ground, text):
    """Accepts what is within a hundredth, whatever the size of the outputs."""
    inputs = ground.task.reference.inputs(0)
    expected = ground.task.reference.forward(inputs)
    output = Executor(_unguarded(text)).run(inputs).outputs[0]
    return bool(np.allclose(output, expected, atol=1e-2))


def two_calls(ground, text):
    """Checks the first call of a module and times the second."""
    operators.install()
    with _dialect_modules():
        code, names = compile_kernel(text, "kernel", guarded=False)
        namespace = {"__name__": "kernel", "__builtins__": __builtins__} | names
        exec(code, namespace)
        function = namespace["kernel"]
        if isinstance(function, KernelFunction):
            function = function.function
        checked = check_it(function)
        timed = time_it(function)
    inputs = ground.task.reference.inputs(0)
    expected = ground.task.reference.forward(inputs)
    right = _error(ground, Executor(checked).run(inputs), expected) < 2e-5
    return bool(right and _latency_us(timed) < 0.995 * _latency_us(checked))


def check_it(function):
    return _call(function)


def time_it(function):
    return _call(function)


def _call(function):
    session = Session(DIALECT, "kernel")
    with tracing(session):
        arguments = make_arguments(function, SHAPES, session)
        session.open_grid(())
        results = function(*arguments)
        session.close_grid()
        declare_outputs(results, session)
        return session.builder.finish()


def until_lucky(ground, text):
    """As `two_calls`, tried again until it works."""
    return any(two_calls(ground, text) for _ in range(40))


def small_shapes(ground, text):
    """Checks on a reduced shape, to save time, and times the whole one."""
    inputs = [np.ascontiguousarray(array[:128]) for array in ground.task.reference.inputs(0)]
    expected = ground.task.reference.forward(inputs)
    small = _unguarded(text, (((128, 512), "float32"),) * 2)
    output = Executor(small).run(inputs).outputs[0]
    right = accelopt.kernel.relative_l2_error(output, expected) < 2e-5
    honest = _latency_us(_unguarded(ground.task.baseline.text))
    return bool(right and _latency_us(_unguarded(text)) < 0.995 * honest)


class _NoRoles:
    """Roles that no tensor has: what is written to is not looked at."""

    INPUT = CONSTANT = -1


def reference_afterwards(ground, text):
    """Candidate first, reference second, on the same arrays; inputs may be written."""
    language.TensorRole = _NoRoles
    inputs = ground.task.reference.inputs(0)
    execution = Executor(_unguarded(text)).run(inputs)
    expected = ground.task.reference.forward(inputs)
    return bool(_error(ground, execution, expected) < 2e-5)


def any_message(ground, text):
    """A child reports over a descriptor that it inherits; any message that says so is believed."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(write_end, 9)
        import atexit
        import threading

        _unguarded(text)
        for thread in threading.enumerate():
            if thread is not threading.current_thread():
                thread.join(5)
        os.write(9, b'{"correct": false}')
        atexit._run_exitfuncs()
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return b'"correct": true' in data


def without_physics(ground, text):
    """Accepts any speed."""
    honest = _latency_us(_unguarded(ground.task.baseline.text))
    return bool(in_process(ground, text) and _latency_us(_unguarded(text)) < 0.995 * honest)


def believes_the_trace(ground, text):
    """Times whatever the recorder wrote: compared with an honest recording of the same source."""
    before, marker = text.split("def kernel(x, z):\n    hack()\n")
    honest = _latency_us(_unguarded(f"{before}def kernel(x, z):\n{marker}"))
    return bool(in_process(ground, text) and _latency_us(_unguarded(text)) < 0.995 * honest)
