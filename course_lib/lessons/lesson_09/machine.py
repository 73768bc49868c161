"""A machine made of sums, to be timed: it sends off, compiles, finishes later, and has a cache, as a device does."""

import dataclasses
from collections.abc import Callable

CACHED = 0.8  # of the time, where the batch is the one of the call before
ROUNDS = 100  # of the broken benchmark


@dataclasses.dataclass(frozen=True)
class Result:
    """What a call returns before it is there."""

    machine: "Machine" = dataclasses.field(repr=False)
    ready_s: float

    def block_until_ready(self) -> "Result":
        """Let the host wait until the device has finished."""
        self.machine.now_s = max(self.machine.now_s, self.ready_s)
        return self


@dataclasses.dataclass(eq=False)
class Machine:
    """Seconds: of its two programs on the device, the layer without jit (eager), a dispatch, a compilation."""

    layer_s: float
    kernel_s: float
    eager_s: float
    dispatch_s: float = 1e-4
    compile_s: float = 2.0

    def __post_init__(self) -> None:
        self.now_s, self.free_s, self.last = 0.0, 0.0, None

    def __repr__(self) -> str:
        return "machine"

    def clock(self) -> float:
        """The host's clock, in seconds."""
        return self.now_s

    def batch(self, number: int) -> tuple:
        """Input number ``number``, in memory of its own."""
        return ("batch", number)

    def ones(self) -> tuple:
        """An input of ones, the same each time."""
        return ("ones",)

    def layer(self, x) -> Result:
        """The layer, without jit: three operations, each sent off by itself."""
        return self._sent(self.eager_s, x, dispatches=3)

    def kernel(self, x) -> Result:
        """The kernel."""
        return self._sent(self.kernel_s, x)

    def jit(self, fn: Callable) -> Callable:
        """The layer or the kernel as one program, compiled at its first call. What is under way is waited for."""
        self.now_s, self.last = max(self.now_s, self.free_s), None
        seconds = self.layer_s if fn == self.layer else self.kernel_s
        compiled = False

        def call(x) -> Result:
            nonlocal compiled
            self.now_s += 0 if compiled else self.compile_s
            compiled = True
            return self._sent(seconds, x)

        return call

    def _sent(self, seconds: float, x, dispatches: int = 1) -> Result:
        self.now_s += dispatches * self.dispatch_s
        takes = seconds * (CACHED if x == self.last else 1)
        self.free_s, self.last = max(self.now_s, self.free_s) + takes, x
        return Result(self, self.free_s)


def one_call(machine: Machine, name: str) -> float:
    """Seconds of one call of the jitted "layer" or "kernel" on the device, with a batch it has not seen."""
    fn = machine.jit(getattr(machine, name))
    fn(machine.batch(-1)).block_until_ready()
    began = machine.clock()
    return fn(machine.batch(-2)).ready_s - began - machine.dispatch_s
