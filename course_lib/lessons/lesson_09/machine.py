"""A machine made of sums, to be timed: it sends off, compiles, finishes later, and has a cache, as a device does."""

import dataclasses
import types
from collections.abc import Callable

CACHED = 0.8  # of the time, where the batch is the one of the call before
ROUNDS = 100  # of the broken benchmark


@dataclasses.dataclass(frozen=True)
class Result:
    """What a call returns before it is there."""

    _machine: "Machine" = dataclasses.field(repr=False)
    ready_s: float

    def block_until_ready(self) -> "Result":
        """Let the host wait until the device has finished."""
        self._machine.now_s = max(self._machine.now_s, self.ready_s)
        return self


@dataclasses.dataclass(eq=False)
class Machine:
    """Seconds: of its two programs on the device, the layer without jit (eager), a dispatch, a compilation."""

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
        return self._sent(self._eager_s, x, "layer", dispatches=3)

    def kernel(self, x) -> Result:
        """The kernel."""
        return self._sent(self._kernel_s, x, "kernel")

    def jit(self, fn: Callable) -> Callable:
        """The layer or the kernel as one program, compiled at its first call. What is under way is waited for."""
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
        """ "layer" or "kernel", whichever ``fn`` calls; it is called once, as JAX calls what it compiles."""
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
    """What a benchmark may ask of the machine: all but its seconds, which are to be measured."""
    names = ("clock", "batch", "ones", "layer", "kernel", "jit")
    return types.SimpleNamespace(**{name: getattr(machine, name) for name in names})


def one_call(machine: Machine, name: str) -> float:
    """Seconds of one call of the jitted "layer" or "kernel" on the device, with a batch it has not seen."""
    fn = machine.jit(getattr(machine, name))
    fn(machine.batch(-1)).block_until_ready()
    began = machine.clock()
    return fn(machine.batch(-2)).ready_s - began - machine._dispatch_s
