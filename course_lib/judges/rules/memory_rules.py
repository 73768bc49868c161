"""Rules about memory: what is read before it is written, left over, written too early, or never."""

import collections
import re

import numpy as np

from course_lib import grid
from course_lib.judges.reading import copies, masking, memory, order
from course_lib.judges.verdict import Complaint
from course_lib.judges.wrong_outputs.finding import Finding


def copied_by_hand(found: Finding) -> Complaint | None:
    """Report a copy by hand without a partner, or memory that is used while a copy is in flight."""
    return copies.complaint(found.walk) or copies.early_use(found.walk)


def shared(found: Finding) -> Complaint | None:
    """Report steps that depend on their order, although they are marked parallel and the simulator reorders them."""
    return None if found.in_order else order.shared_block(found.walk) or order.carried_on(found.walk)


def written_over(found: Finding) -> Complaint | None:
    """Report an input that shares an output's memory, and is read after the output has been written there."""
    for call in found.walk.calls:
        inputs = {operand.name: operand for operand in call.inputs}
        for output in call.outputs:
            source = inputs.get(output.aliases)
            if source is None or not (source.pipelined and output.pipelined):
                continue
            if overwritten := _read_after_write(source, output):
                before, step = map(call.step, overwritten)
                block = tuple(source.indices[overwritten[1]].tolist())
                return Complaint(
                    f"{source.name} and {output.name} share their memory (input_output_aliases): at step {step} "
                    f"{source.name} reads block {block}, which step {before} has overwritten.",
                    "read each block no later than the step that writes it, or remove the alias.",
                )
    return None


def _read_after_write(source: grid.Operand, output: grid.Operand) -> tuple[int, int] | None:
    """Return (step that writes a block, later step that fetches it) of two operands in one memory; None if none."""
    written: dict[tuple, int] = {}
    for step, (read, write) in enumerate(zip(source.starts.tolist(), output.starts.tolist(), strict=True)):
        if source.fetched[step] and tuple(read) in written:
            return written[tuple(read)], step
        if output.written[step]:
            written[tuple(write)] = step
    return None


def read_first(found: Finding) -> Complaint | None:
    """Report memory that is read before anything has been written there."""
    for call in found.walk.calls:
        for read in memory.unwritten_reads(call):
            chosen = masking.is_chosen(call, read.ref)
            if chosen and _is_kept_out(found):
                continue
            if chosen and (kept := _kept_by_all(found, call, read.ref)):
                return kept
            return _unwritten(call, read._replace(ref=_own_name(call, read.ref)))
    return None


def _is_kept_out(found: Finding) -> bool:
    """Whether garbage, which is NaN, does not show in the first wrong element."""
    return not found.unwritten[found.first] or found.is_nan_without_garbage


def _kept_by_all(found: Finding, call: grid.Call, ref: str) -> Complaint | None:
    """Report rows of an output block in which every step keeps what the block held, by a jnp.where with it."""
    if found.made_by is None or found.made_by[0] is not call or found.made_by[1].name != ref or not len(found.steps):
        return None
    output, steps = found.made_by[1], found.steps
    start, size = output.starts[steps[0]].tolist(), output.block_shape
    block = found.unwritten[tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))]
    axis = max(block.ndim - 2, 0)
    rows = np.moveaxis(block, axis, 0).reshape(block.shape[axis], -1) if block.ndim else block.reshape(1, 1)
    left = rows.all(axis=1)
    if not left.any() or left.all() or not np.array_equal(rows.any(axis=1), left):
        return None
    first, last = (call.step(int(steps[n])) for n in (0, -1))
    where = f"step {first}" if len(steps) == 1 else f"steps {first} to {last}"
    return Complaint(
        f"No step writes {_rows(np.flatnonzero(left).tolist())} of this block: at {where} the jnp.where with {ref} "
        "keeps what was there, which is garbage.",
        "together, the masks of a block's steps must cover all its rows. Check for a mask that is off by one row, or "
        "that does not count from the block's first row.",
    )


def _rows(numbers: list[int]) -> str:
    """Return "row 3", "rows 3 to 7" or, of those that do not follow each other, "rows 3 to 7 and 12 more"."""
    run = next((n for n, row in enumerate(numbers) if row != numbers[0] + n), len(numbers))
    which = f"row {numbers[0]}" if run == 1 else f"rows {numbers[0]} to {numbers[run - 1]}"
    return which if run == len(numbers) else f"{which} and {len(numbers) - run} more"


def _own_name(call: grid.Call, ref: str) -> str:
    """Return a ref's name; a buffer that emit_pipeline allocates gets that of the array whose blocks it holds."""
    if (buffer := re.fullmatch(r"allocations\[(\d+)\]\.\w+", ref)) is None:
        return ref
    found = [p for p in order.pipelines(grid.Walk(calls=(call,), jaxpr=None)) if int(buffer[1]) < len(p.operands)]
    return f"the block of {found[0].operands[int(buffer[1])].name}" if found else "a block of the pipeline"


def _never_copied(call: grid.Call) -> str:
    """Return the name of an input that is left in HBM and that no copy reads; "" if there is none."""
    waiting = [operand.name for operand in call.inputs if operand.memory_space == "hbm"]
    uses = memory.known_uses(call)
    touched = {use.source for use in uses or ()} | {use.ref for use in uses or ()}
    return next((name for name in waiting if uses is not None and name not in touched), "")


def _unwritten(call: grid.Call, read: memory.Read) -> Complaint:
    when = f" at step {call.step(read.step)}" if call.steps > 1 else ""
    if read.rows:
        start, end = read.rows
        where = f"{read.ref}[{start}]" if end == start + 1 else f"{read.ref}[{start}:{end}]"
        return Complaint(
            f"{where} is read{when} before anything has been written to it.", f"write all of {read.ref} first."
        )
    at = f"At step {call.step(read.step)} {read.ref}" if call.steps > 1 else read.ref
    what = f"{at} is read before anything has been written to it; `+=` reads too."
    if read.written_at is not None and read.written_at > read.step:
        what = f"{read.ref} is read{when}, but it is not written until step {call.step(read.written_at)}."
    output = next((o for o in call.outputs if o.name == read.ref), None)
    if output is not None and output.aliases:
        todo = (
            f"{read.ref} shares its array with {output.aliases}, but not its block in VMEM: read from {output.aliases}."
        )
    elif (unread := _never_copied(call)) and output is None:
        todo = (
            f"{unread} is in HBM and no copy of it is started: check for a missing .start(), or one without its "
            "parentheses."
        )
    elif output is not None and _is_come_back_to(output):
        todo = (
            f"the grid leaves blocks of {read.ref} and comes back to them: put the reduction axis last in the grid, "
            "and initialize each block at its first step, under pl.when."
        )
    elif call.steps == 1 or (output is not None and output.changes.all()):
        todo = f"write {read.ref} with =, not with +=; if a loop accumulates in it, initialize it before the loop."
    elif output is not None:
        todo = f"initialize {read.ref} at the first step of each of its blocks, under pl.when."
    elif any(_follows_a_list(call, each) for each in call.outputs):
        todo = (
            f"initialize {read.ref} at the first step of each output block: at step 0, and where the list's entry "
            "differs from the one before."
        )
    else:
        todo = f"initialize {read.ref} when the index of the reduction axis is 0: @pl.when(pl.program_id(axis) == 0)."
    return Complaint(what, todo)


def _is_come_back_to(output: grid.Operand) -> bool:
    """Whether the grid leaves some block of the output and revisits it."""
    visits = output.indices[np.flatnonzero(output.changes)]
    return len(np.unique(visits, axis=0)) < len(visits)


def left_unwritten(found: Finding) -> Complaint | None:
    """Report an output block that none of its steps writes, although the kernel has a line that would."""
    if found.made_by is None or not len(found.steps):
        return None
    call, output = found.made_by
    if memory.writes(call, output.name, found.steps)[0] or memory.known_uses(call) is None:
        return None
    if _writes_whole_blocks(call, output):
        return Complaint(
            f"None of the steps of this block writes to {output.name}, but all steps of other blocks do: the condition "
            "around the write does not tell the steps of a block apart.",
            "test the axis of the grid along which the steps of one block follow one another.",
        )
    if _follows_a_list(call, output):
        return Complaint(
            f"None of the steps of this block writes to {output.name}, because the condition around the write is "
            "false there.",
            "every block needs a write, for example at its last step: where the list's next entry differs, or where no "
            "entry comes after it.",
        )
    if memory.writes(call, output.name, np.arange(call.steps))[0]:
        return Complaint(
            f"None of the steps of this block writes to {output.name}, because the condition around the write is "
            "false there.",
            "an output block starts as garbage. Write it in the other case too, zeros for example, or initialize it "
            "first.",
        )
    return Complaint(
        f"None of the steps of this block writes to {output.name}, because the condition around the write is never "
        "true.",
        "steps are counted from 0, so the last step of axis a is pl.num_programs(a) - 1.",
    )


def _follows_a_list(call: grid.Call, output: grid.Operand) -> bool:
    """Whether a prefetched list gives the output's blocks as many steps as each needs."""
    return bool(call.scalars) and len(set(np.unique(output.indices, axis=0, return_counts=True)[1].tolist())) > 1


def _writes_whole_blocks(call: grid.Call, output: grid.Operand) -> bool:
    """Whether every block of several steps is written at all of them or at none, and some block is written."""
    uses = [u for u in memory.known_uses(call) or () if u.ref == output.name and u.kind in ("write", "start")]
    written = np.isin(np.arange(call.steps), [step for use in uses for step in use.steps.tolist()])
    _, block, steps = np.unique(output.indices, axis=0, return_inverse=True, return_counts=True)
    share = np.bincount(block.ravel(), written) / steps
    return bool((steps > 1).all() and (share == 1).any() and np.isin(share, (0, 1)).all())


def written_too_early(found: Finding) -> Complaint | None:
    """Report an output block that is written for the last time while scratch still changes."""
    if found.made_by is None or len(found.steps) < 2:
        return None
    call, output = found.made_by
    at = set(found.steps.tolist())
    last = {
        use.ref: max(s for s in use.steps.tolist() if s in at)
        for use in memory.known_uses(call) or ()
        if use.kind == "write" and at & set(use.steps.tolist())
    }
    changes = {scratch.name: last[scratch.name] for scratch in call.scratch if scratch.name in last}
    name = max(changes, key=changes.get, default="")
    if output.name not in last or not name or last[output.name] >= changes[name]:
        return None
    return Complaint(
        f"{output.name} is written for the last time at step {call.step(last[output.name])}, but {name} keeps "
        f"changing until step {call.step(changes[name])}.",
        f"write {output.name} at the last step of the reduction, where its index is pl.num_programs(axis) - 1.",
    )


def nothing_carried(found: Finding) -> Complaint | None:
    """Report several steps that make one output block and each start over."""
    if found.made_by is None or len(found.steps) < 2:
        return None
    call, output = found.made_by
    if memory.known_uses(call) is None or memory.carries(call, found.steps) or grid.has_copies_by_hand(call):
        return None
    if found.is_nan_by_garbage:
        return None  # so a step does not set it
    if not memory.writes(call, output.name, found.steps)[0]:
        return None  # nothing computes it
    first, last = (call.step(int(found.steps[n])) for n in (0, -1))
    if grid.returns(output):
        return Complaint(
            f"Steps {first} and {last} both compute this block from scratch, and other blocks are computed between "
            "them.",
            "make the steps of a block consecutive: put the reduction axis last in the grid.",
        )
    what = f"Every step starts over, so only what step {last} computes remains."
    if ref := _set_again(call, found.steps):
        return Complaint(
            what,
            f"{ref} is initialized at step {first} under a condition, which is right, but then every step overwrites "
            "it. It should keep what it holds: += adds to it, jnp.maximum keeps the larger.",
        )
    if any(eqn.primitive.name == "cond" for eqn in grid.equations(call.kernel)):
        return Complaint(
            what,
            f"check the condition of pl.when: it should hold at step {first}, and not again up to {last}. Does it "
            "test the right axis of the grid?",
        )
    return Complaint(
        what,
        "accumulate across these steps, a sum or the best so far, and initialize only at the first, under pl.when.",
    )


def _set_again(call: grid.Call, steps: np.ndarray) -> str:
    """Return a ref written whole both at the first of these steps alone and again at all of them; "" if none is."""
    these, when = set(steps.tolist()), collections.defaultdict(list)
    for use in memory.known_uses(call) or ():
        if use.kind == "write" and use.whole:
            when[use.ref].append(these & set(use.steps.tolist()))
    return next((ref for ref, at in when.items() if {min(these)} in at and these in at), "")


def left_over(found: Finding) -> Complaint | None:
    """Report sums of another output block that are still in the scratch, unless a jnp.where may leave them out."""
    for call in found.walk.calls:
        if (read := memory.stale_read(call)) is not None and len(call.outputs):
            if masking.is_chosen(call, read.ref):
                continue
            if memory.set_once(call, read.ref) and not any(grid.returns(output) for output in call.outputs):
                return _set_once(call, read)
            return Complaint(
                f"At step {call.step(read.step)}, where a new output block begins, {read.ref} still holds what step "
                f"{call.step(read.left_by)} left there.",
                _cure_of_leftovers(call, read.ref),
            )
    return None


def _set_once(call: grid.Call, read: memory.Read) -> Complaint:
    firsts = [call.step(n) for n in np.flatnonzero(memory.new_outputs(call)).tolist()]
    more = ", ..." if len(firsts) > 3 else ""
    return Complaint(
        f"{read.ref} is initialized only once for the whole grid, at step {firsts[0]}. At step "
        f"{call.step(read.step)}, where a new output block begins, {read.ref} still holds what step "
        f"{call.step(read.left_by)} left there.",
        f"initialize {read.ref} at the first step of every output block, {', '.join(map(str, firsts[:3]))}{more}, "
        "where the reduction index is 0.",
    )


def _cure_of_leftovers(call: grid.Call, ref: str) -> str:
    if any(grid.returns(output) for output in call.outputs):
        return (
            f"{ref} has room for one output block: put the reduction axis last, so that each block is finished before "
            "the next."
        )
    return (
        f"initialize {ref} at the first step of every output block, when the reduction index is 0, not at the first "
        "step of the whole grid."
    )


def never_written(found: Finding) -> Complaint | None:
    if not found.unwritten[found.first]:
        return None
    what = "Nothing has written this memory: a buffer starts as NaN (an integer buffer as its largest value)."
    if found.made_by and (rows := memory.rows_untouched(*found.made_by, ("write", "start"), found.steps)):
        call, output = found.made_by
        if output.aliases is not None and len(found.steps):
            where = f"At step {call.step(int(found.steps[0]))}" if len(found.steps) == 1 else "At these steps"
            return Complaint(
                f"{where} {output.name}[{rows[0]}:{rows[1]}] is not written. Output blocks are not copied in, even "
                f"though the array of {output.name} shares its memory with {output.aliases}.",
                f"fill the block first, {output.name}[...] = {output.aliases}[...], and then write the new values.",
            )
        what = f"Nothing has written {found.made_by[1].name}[{rows[0]}:{rows[1]}], which starts as NaN."
        what = what.replace("NaN", "the largest integer") if found.got.dtype.kind in "iu" else what
    cure = (
        "write every element of every output block; look for a condition that never holds, a loop that ends early, or "
        "slices that overlap because their start is not multiplied by their length."
    )
    return Complaint(what, cure)


def computed(found: Finding) -> Complaint | None:
    """Report NaN that is not garbage."""
    if not is_computed(found):
        return None
    if any(np.issubdtype(leaf.dtype, np.floating) and not np.isfinite(leaf).all() for leaf in found.leaves):
        return Complaint(
            f"The kernel writes all of {found.made_by[1].name}, so it computes that NaN itself. The arguments hold NaN "
            "or inf where nothing counts.",
            "mask what does not count by jnp.where before it is multiplied: 0 * NaN is NaN that was read. If all of it "
            "is masked, look for 0 / 0, for inf - inf, and for an exp that overflows.",
        )
    return Complaint(
        f"The kernel writes all of {found.made_by[1].name}, so it computes that NaN itself.",
        "NaN comes from 0 / 0, inf - inf, 0 * inf, or from NaN that was read, as in scratch that nothing has written: "
        "look for a sum that is 0, a row that is masked entirely, or an exp that overflows.",
    )


def is_computed(found: Finding) -> bool:
    """Whether the first wrong element is NaN and lies in a block that the kernel writes completely."""
    if found.made_by is None or found.got.dtype.kind in "iub" or not found.unwritten[found.first]:
        return False
    call, output = found.made_by
    return bool(len(found.steps)) and memory.writes(call, output.name, found.steps)[1]
