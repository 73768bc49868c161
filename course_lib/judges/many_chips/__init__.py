"""A judge for kernels that talk to other chips.

One simulated run is recorded (``record``); what must happen before what in every run follows from it (``order``), and
from that what can go wrong (``protocol``). The same record, played against links of a known bandwidth, gives a
predicted (model) time (``schedule``). ``judge_chips`` asks in turn.
"""
