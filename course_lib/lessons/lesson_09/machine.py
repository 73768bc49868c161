"""A simulated machine to benchmark: like a device it dispatches, compiles, runs asynchronously and has a cache."""

import dataclasses
import types
from collections.abc import Callable

CACHED = 0.8  # share of the time that a call takes if its batch is that of the previous call
ROUNDS = 100  # of the broken benchmark


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of a call, which may not be ready yet."""

    _machine: "Machine" = dataclasses.field(repr=False)
    ready_s: float

    def block_until_ready(self) -> "Result":
        """Make the host wait until the device has finished."""
        self._machine.now_s = max(self._machine.now_s, self.ready_s)
        return self


@dataclasses.dataclass(eq=False)
class Machine:
    """Times in seconds: its two programs on the device, the layer without jit (eager), a dispatch, a compilation."""

    _layer_s: float
    _kernel_s: float
    _eager_s: float
    _dispatch_s: float = 1e-4
    _compile_s: float = 2.0

    def __post_init__(self) -> None:
        self.now_s, self.free_s, self.last, self._traced = 0.0, 0.0, None, None

    def __repr__(self) -> str:
        return "machine"

    def clock(self) -> float:
        """Return the host's clock, in seconds."""
        return self.now_s

    def batch(self, number: int) -> tuple:
        """Return input number ``number``, in its own memory."""
        return ("batch", number)

    def ones(self) -> tuple:
        """Return an input of ones, the same each time."""
        return ("ones",)

    def layer(self, x) -> Result:
        """Run the layer without jit: three operations, each dispatched separately."""
        return self._sent(self._eager_s, x, "layer", dispatches=3)

    def kernel(self, x) -> Result:
        """Run the kernel."""
        return self._sent(self._kernel_s, x, "kernel")

    def jit(self, fn: Callable) -> Callable:
        """Return the layer or the kernel as one program, compiled at its first call, after waiting for pending work."""
        self.now_s, self.last = max(self.now_s, self.free_s), None
        seconds = {"layer": self._layer_s, "kernel": self._kernel_s}[self._trace(fn)]
        compiled = False

        def call(x) -> Result:
            nonlocal compiled
            self.now_s += 0 if compiled else self._compile_s
            compiled = True
            return self._sent(seconds, x, "compiled")

        return call

    def _trace(self, fn: Callable) -> str:
        """Return "layer" or "kernel", whichever ``fn`` calls, by calling it once, as JAX does when it compiles."""
        self._traced = []
        try:
            fn(("traced",))
        finally:
            called, self._traced = self._traced, None
        if called not in (["layer"], ["kernel"]):
            raise ValueError(
                "machine.jit takes machine.layer, machine.kernel, or a function that calls one of them once."
            )
        return called[0]

    def _sent(self, seconds: float, x, program: str, dispatches: int = 1) -> Result:
        if self._traced is not None:
            self._traced.append(program)
            return Result(self, self.now_s)
        self.now_s += dispatches * self._dispatch_s
        takes = seconds * (CACHED if x == self.last else 1)
        self.free_s, self.last = max(self.now_s, self.free_s) + takes, x
        return Result(self, self.free_s)


def outside(machine: Machine) -> types.SimpleNamespace:
    """Return what a benchmark may use of the machine: everything except the times it has to measure."""
    names = ("clock", "batch", "ones", "layer", "kernel", "jit")
    return types.SimpleNamespace(**{name: getattr(machine, name) for name in names})


def one_call(machine: Machine, name: str) -> float:
    """Return the device seconds of one call of the jitted "layer" or "kernel", with a batch it has not seen."""
    fn = machine.jit(getattr(machine, name))
    fn(machine.batch(-1)).block_until_ready()
    began = machine.clock()
    return fn(machine.batch(-2)).ready_s - began - machine._dispatch_s
