"""Devices by name, and a protocol with fewer launches: the rule is the same."""

from accelopt.trainium import TRN1, TRN2
from accelopt_trainium.measure import Protocol

DEVICES = {"trn1": TRN1, "trn2": TRN2}
QUICK = Protocol(launches=3, pause_s=0.01, repeats=2)
