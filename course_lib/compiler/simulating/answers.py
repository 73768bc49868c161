"""Questions to the compiler about a function, and to its simulator about as much of it as is worth the time."""

import concurrent.futures
import contextlib
import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.extend.core

from course_lib import chips, environment, grid
from course_lib.compiler.child import idle, service
from course_lib.compiler.dumps import dump, hlo
from course_lib.compiler.simulating import columns, divisions, extrapolate, one_axis, prefetched, simulation
from course_lib.compiler.simulating.simulation import Simulation

MAX_BUNDLES = 1_500_000  # longer programs take minutes and many GiB: simulated only if the caller allows for it
_SECONDS_PER_BUNDLE, _BYTES_PER_BUNDLE = 15e-6, 1.6e3  # of the simulator, on the machine this was written on
_IN_FOUR_GIB = 524_288  # bundles for which Limits allows twice the warm child's memory
WORTH_NARROWING = 400_000  # below this, three compiles by XLA take longer than simulating the whole
_CRASHED = "the simulator crashed after it had written the cycles of every op."
_ONE_AXIS = (
    "simulated with the steps of its grid on one axis, because the simulator crashed on several: a step's scalar code "
    "may be a few cycles longer or shorter."
)
_A_PLACE = "loc("  # where the compiler's error names the operation it is about
_NOTHING = Simulation(cycles={}, time_split={})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """The time and memory that one compile may take; None: as much as the function needs, within reason."""

    seconds: float | None = None
    memory_bytes: int | None = None

    def of(self, bundles: int) -> dict:
        """Return the service's limits for a program that issues about ``bundles`` bundles."""
        long = bundles > 500_000  # shorter ones fit into the warm child's limits
        nobody_waits = environment.building() or environment.under_nbval()  # and others may compute
        patience = 6 if nobody_waits else 1
        seconds = service.TIME_LIMIT_S + (bundles * 60e-6 if long else 0)  # measured: 10 to 20 us each
        memory = service.MEMORY_BYTES + (bundles * 4_000 if long else 0)  # 1.6 GB for a million
        return {
            "time_limit_s": patience * (self.seconds or seconds),
            "memory_bytes": self.memory_bytes or -(-memory >> 30) << 30,
        }

    def allow(self, bundles: int) -> bool:
        """Whether the caller has allowed enough time and memory to simulate ``bundles`` bundles whole."""
        given = (self.seconds or 0) / _SECONDS_PER_BUNDLE, (self.memory_bytes or 0) / _BYTES_PER_BUNDLE
        return bundles <= min(given)


def compile_only(ask: Callable, jaxpr) -> tuple[dict, Simulation, tuple[str, ...]]:
    """Return the worker's answer about a traced function, no simulation, and a note that says so."""
    return ask(jaxpr, simulate=False), _NOTHING, ("not simulated.",)


def simulated(
    ask: Callable, jaxpr, args: tuple, walk: grid.Walk | None, chip: chips.Chip, limits: Limits, say: Callable
):
    """Return the worker's answer about a whole traced function, its simulation, and notes on what was not simulated.

    ``ask`` is made by ``asking``; ``say`` reports what takes long. Raises service.WorkerDied if the compiler dies of
    the function even without the simulator.
    """
    if chip.name == "v4":
        return ask(jaxpr, simulate=False), _NOTHING, ("not simulated: libtpu has no simulator for a v4.",)
    if walk is None:
        return _whole(jaxpr, _seen(jaxpr, args, chip), 0, ask, say)
    readable, why = divisions.worked_out(jaxpr, args)
    plan = extrapolate.plan(readable, args, walk, chip)
    if plan.calls:
        sizes = [_seen(extrapolate.smaller(readable, plan, which), args, chip) for which in ("small", "large")]
        answer, said, notes = _in_two_sizes(jaxpr, sizes, plan, ask)
    elif plan.bundles > WORTH_NARROWING and (found := _in_columns(jaxpr, args, chip, ask)):
        answer, said, notes = found
    elif plan.bundles > MAX_BUNDLES and not limits.allow(plan.bundles):
        return ask(jaxpr, simulate=False), _NOTHING, (f"no cycles: {plan.why}{_too_long(plan.bundles)}.",)
    else:
        answer, said, notes = _whole(jaxpr, _seen(readable, args, chip), plan.bundles, ask, say)
    return answer, said, (*notes, *_doubtful(why))


def _doubtful(why: str) -> tuple[str, ...]:
    """Return a note on divisions that could not be rewritten for the simulator."""
    return (f"the cycles may be wrong: the simulator computes quotients and remainders as 0, and {why}.",) * bool(why)


def asking(chip: chips.Chip, lower: Callable, limits: Limits) -> Callable:
    """Return a function that asks the compiler about a traced function, or a part of one for its cycles only.

    The compiler sees no source locations, so that the same program gets the same answer anywhere. If it refuses a
    program and names the operation, it is asked again with the innermost location. If the simulator ends with SIGSEGV,
    as it does without memory, it is asked again with twice as much, unless the caller has set the limit.
    """

    def ask(jaxpr, args: tuple | None = None, *, simulate: bool, bundles: int = 0, cycles_only: bool = False) -> dict:
        asked = functools.partial(once, jaxpr, args, simulate=simulate, cycles_only=cycles_only)
        try:
            return asked(bundles=bundles)
        except service.WorkerDied as died:
            if limits.memory_bytes or not simulate or "SIGSEGV" not in str(died):
                raise
            return asked(bundles=max(2 * bundles, _IN_FOUR_GIB))
        finally:
            idle.asked()

    def once(jaxpr, args: tuple | None, *, simulate: bool, bundles: int, cycles_only: bool) -> dict:
        allowed = limits.of(bundles if simulate else 0)
        if cycles_only:
            return service.cycles_of(chip.topology, lower(jaxpr, args), **allowed)
        answer = service.compile_module(chip.topology, lower(jaxpr, args), simulate=simulate, **allowed)
        if answer["ok"] or _A_PLACE not in answer["error"]:
            return answer
        module = lower(jaxpr, args, frames=1)
        return service.compile_module(chip.topology, module, simulate=simulate, **allowed)

    return ask


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seen:
    """A function, or a part of one, as the simulator sees it."""

    jaxpr: jax.extend.core.ClosedJaxpr
    args: tuple  # with their values, if these are known
    told: bool = False  # whether prefetched values are written into it, which changes its arguments
    cores: int = 1  # of the chip
    trouble: str = ""  # why it cannot be simulated


def _seen(jaxpr, args: tuple, chip: chips.Chip) -> _Seen:
    """Prepare the function for the simulator; prefetched values that decide something are written into it."""
    seen = _Seen(jaxpr=jaxpr, args=args, cores=chip.cores)
    if not prefetched.matters(jaxpr):
        return seen
    try:
        written, arguments = prefetched.told(jaxpr, args, chip.name)
    except grid.UnreadableCall as error:
        return dataclasses.replace(seen, trouble=f"{prefetched.UNSEEN}: {str(error).rstrip('.')}")
    return dataclasses.replace(seen, jaxpr=written, args=arguments, told=True)


def _on_one_axis(seen: _Seen) -> _Seen | None:
    """Rewrite the function with grids of one axis; None if nothing changes, or if it is impossible."""
    flat = one_axis.flattened(seen.jaxpr) if seen.cores == 1 else None  # two cores share a parallel axis
    readable, trouble = divisions.worked_out(flat, seen.args) if flat else (None, "")
    return dataclasses.replace(seen, jaxpr=readable) if readable and not trouble else None


def _whole(jaxpr, seen: _Seen, bundles: int, ask: Callable, say: Callable):
    """Simulate all of the function.

    If the simulator sees another function, or gives up, the function itself is compiled too.
    """
    if bundles > extrapolate.WHOLE_BUNDLES * 3:
        say(f"simulating about {bundles / 1e6:.1f} million instruction bundles, for about {bundles * 15e-6:.0f} s")
    alone = functools.cache(lambda: ask(jaxpr, simulate=False))
    simulated, said, notes = _simulated(seen, ask, alone, bundles=bundles)
    answer = simulated if simulated and seen.jaxpr is jaxpr else alone()
    return answer, simulation.of(said) if said and answer["ok"] else _NOTHING, notes if answer["ok"] else ()


def _simulated(seen: _Seen, ask: Callable, alone: Callable, **how) -> tuple[dict | None, dump.Dump | None, tuple]:
    """Return the worker's answer about what the simulator sees, its dump by the whole's op names, and notes.

    ``alone()`` is the answer about the whole without the simulator. The answer is None if the compiler died, the dump
    is None if it is of no use.
    """
    if seen.trouble:
        return None, None, (f"no cycles: {seen.trouble}.",)
    try:
        answer = _asked(seen, ask, **how)
        return answer, *_of_the_whole(answer, seen, alone)
    except service.WorkerDied as error:
        died = error
    if not alone()["ok"]:
        return None, None, ()
    if left := _left(seen, died, ask, alone):
        said, notes = _of_the_whole(left, seen, alone)
        return None, said, (*notes, _CRASHED)
    if flat := _on_one_axis(seen):
        with contextlib.suppress(service.WorkerDied):
            said, notes = _of_the_whole(_asked(flat, ask, **how), flat, alone)
            return None, said, (*notes, _ONE_AXIS)
    return None, None, (f"no cycles: with the simulator on, {died}.",)


def _asked(seen: _Seen, ask: Callable, **how) -> dict:
    """Return the worker's answer; the whole of it if ops must be told apart by name."""
    how = how | {"cycles_only": False} if seen.told else how
    return ask(seen.jaxpr, seen.args if seen.told else None, simulate=True, **how)


def _left(seen: _Seen, died: service.WorkerDied, ask: Callable, alone: Callable) -> dict | None:
    """Return the answer that a crash left behind, if it is complete.

    libtpu 0.0.48 and 0.0.50 write the figures of an op first, and may then fail a check of their own on it (bf16
    vectors).
    """
    if died.left is None or not died.left.cycles:
        return None
    answer = ask(seen.jaxpr, seen.args, simulate=False) if seen.told else alone()
    return answer | {"dump": died.left} if answer["ok"] and _complete(answer["dump"], died.left) else None


def _of_the_whole(answer: dict, seen: _Seen, alone: Callable) -> tuple[dump.Dump | None, tuple[str, ...]]:
    """Return an answer's dump by the op names of the whole, and notes on what it leaves out."""
    if not answer["ok"] or not seen.told:
        return answer.get("dump"), ()
    if not alone()["ok"]:
        return None, ()
    module = hlo.read(alone()["hlo"])
    said = simulation.renamed(answer["dump"], hlo.read(answer["hlo"]), module)
    if left := {op.name for op in module.ops if op.call is not None} - set(said.cycles):
        return None, (f"no cycles: the simulator gave none for {', '.join(sorted(left))}.",)
    others = len(set(alone()["dump"].programs) - set(said.cycles))
    return said, (f"the cycles leave out {others} of XLA's ops, which compute what kernels prefetch.",) * bool(others)


def _complete(said: dump.Dump, left: dump.Dump | None) -> bool:
    """Whether there are cycles for every program that the compiler wrote without its simulator."""
    return left is not None and bool(said.programs) and set(said.programs) <= set(left.cycles)


def _in_columns(jaxpr, args: tuple, chip: chips.Chip, ask: Callable):
    """Simulate a few columns of XLA's own matmul; None if it is not one, or if XLA cuts the few differently."""
    product = columns.product(jaxpr)
    if product is None:
        return None
    answer = ask(jaxpr, simulate=False)
    whole = columns.main_op(hlo.read(answer["hlo"])) if answer["ok"] else None
    if whole is None or whole.iterations[0] <= columns.SMALL + columns.LARGE:
        return None
    parts = []
    for steps in (columns.SMALL, columns.LARGE):
        narrow = columns.narrow(jaxpr, product, args, steps, whole.iterations[0], chip.name)
        if (part := _simulated_product(*narrow, ask)) is None:
            return None
        parts.append(part)
    line = columns.line(whole, [(op, cycles) for op, cycles, _ in parts])
    if line is None:
        return None
    simulated = simulation.of_line(whole.name, line, *(split for _, _, split in parts))
    return answer, simulated, (columns.remark(product, whole),)


def _simulated_product(jaxpr, args: tuple, ask: Callable) -> tuple[hlo.HloOp, int, dict] | None:
    """Return the op that is a matmul, its cycles and its time split; None if the simulator gives none."""
    try:
        answer = ask(jaxpr, args, simulate=True, cycles_only=True)
    except service.WorkerDied:
        return None
    op = columns.main_op(hlo.read(answer["hlo"])) if answer["ok"] else None
    if op is None or op.name not in answer["dump"].cycles:
        return None
    return op, answer["dump"].cycles[op.name], answer["dump"].time_split.get(op.name, {})


def _in_two_sizes(jaxpr, sizes: list[_Seen], plan: extrapolate.Plan, ask: Callable):
    """Simulate two smaller grids, while another child compiles the whole."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        whole = pool.submit(ask, jaxpr, simulate=False)
        try:
            parts = [_simulated(seen, ask, whole.result, bundles=plan.bundles, cycles_only=True) for seen in sizes]
        except BaseException:  # Ctrl-C: do not make the reader wait for the other child
            service.stop(simulate=False)
            raise
        answer = whole.result()
    if not answer["ok"]:
        return answer, _NOTHING, ()
    for seen, (part, said, notes) in zip(sizes, parts, strict=True):
        if part and not part["ok"]:
            return answer, _NOTHING, ("no cycles: a part of its grid does not compile on its own.",)
        if said is None or not (seen.told or _complete(answer["dump"], said)):
            return answer, _NOTHING, notes or ("no cycles: the simulator gave none for some op.",)
    module = hlo.read(answer["hlo"])
    notes = dict.fromkeys(note for *_, notes in parts for note in notes)
    return answer, simulation.extrapolated(*(said for _, said, _ in parts), module, plan.calls), tuple(notes)


def _too_long(bundles: int) -> str:
    seconds, gigabytes = bundles * _SECONDS_PER_BUNDLE, bundles * _BYTES_PER_BUNDLE / 1e9
    long = f"{seconds:,.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} minutes"
    enough = f"time_limit_s={max(60, 2 * round(seconds))}, memory_bytes={round(1.3 * gigabytes + 1)} << 30"
    return (
        f"it issues about {bundles / 1e6:,.1f} million instruction bundles, for which the simulator would need about "
        f"{long} and {gigabytes:,.0f} GB of memory, more than it may use. Try {enough}"
    )
