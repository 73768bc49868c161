"""What cannot leave a box, in one sentence each, with what to write instead."""

_PYTHON = "calls back into Python while it runs. Compute it with jax.numpy, or in the kernel"
_DEVICES = "is for several devices. Call the kernel without it; a kernel copies to another device by itself"

# By operation, or by the start of its name.
_INSTEAD = {
    "pure_callback": _PYTHON,
    "io_callback": _PYTHON,
    "buffer_callback": _PYTHON,
    "ffi_call": "calls a compiled function of this machine. Compute it with jax.numpy, or in the kernel",
    "custom_call": "calls a compiled function of this machine. Compute it with jax.numpy, or in the kernel",
    "check": "belongs to checkify. Test the function with it in a cell of your own, and leave it out of the answer",
    "shard_map": _DEVICES,
    "reshard": _DEVICES,
    "all_gather": _DEVICES,
    "all_to_all": _DEVICES,
    "ppermute": _DEVICES,
    "reduce_scatter": _DEVICES,
    "custom_partitioning": _DEVICES,
    "run_state": "runs a function over refs. Write it with arrays, or in the kernel",
    "compute_on": "moves work to the host. Leave compute_on out",
    "layout_constraint": "fixes a layout. Leave the layout to the compiler",
    "xla_metadata": "attaches metadata. Leave it out",
    "linear_call": "has a transpose of its own. Write the derivative with jax.custom_vjp",
}
_PLAIN = "is an operation that the box does not know. Write it with jax.numpy or jax.lax"


def operation(name: str) -> str:
    """Return the sentence about an operation."""
    found = next((said for start, said in _INSTEAD.items() if name.startswith(start)), _PLAIN)
    return f"it uses {name:.60}, which {found}."


def effect(name: str) -> str:
    """Return the sentence about an effect."""
    return f"it has the effect {name:.60}, which reaches outside the program. Leave it out of the answer."


def holds(value: object) -> str:
    """Return the sentence about an object in an operation's parameters."""
    kind = f"{type(value).__module__}.{type(value).__name__:.60}"
    return f"it passes a {kind} to an operation. Pass numbers, arrays and dtypes."
