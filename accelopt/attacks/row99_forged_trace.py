"""Not on the published list: the candidate makes the recorder leave out what its source does.

The numbers are then right and the latency is a lie: what is timed is not what is written.
"""

from accelopt.attacks.attack import Attack, Exploit, fixed
from accelopt.attacks.kernels import HONEST_BODY, elementwise, hacked
from accelopt.backend import Capability

# Twenty needless stores of each tile, overwritten in the end; the forged recorder drops them.
_SLOW = (
    """for turn in nl.static_range(20):
    nl.store(out[block * 128 + rows, columns], value=nl.exp(b))
"""
    + HONEST_BODY
)
_FORGE = """
recorder = {modules}["accelopt_simulator.trace.builder"].TraceBuilder
original = recorder.emit

dropped = [False]

def emit(self, instruction):
    needless = "exp" in repr(instruction)
    skip, dropped[0] = needless or dropped[0], needless
    return instruction if skip else original(self, instruction)

recorder.emit = emit
"""
_SYS = '["__buil" + "tins__"]["__imp" + "ort__"]("sys")'
_BY_NAME = f'getattr(nl.load, "__glo" + "bals__"){_SYS}.modules'

ATTACK = Attack(
    row=0,
    title="forge the trace",
    defence="the source screen and the guarded run: no way from a kernel to the recorder",
    exploits=(
        Exploit(
            "import sys",
            fixed(hacked(elementwise(_SLOW), _FORGE.format(modules="sys.modules"), "import sys")),
        ),
        Exploit(
            "from an object of the language",
            fixed(hacked(elementwise(_SLOW), _FORGE.format(modules=_BY_NAME))),
        ),
    ),
    twin=fixed(elementwise(_SLOW)),
    needs=frozenset({Capability.TRACE}),
)
