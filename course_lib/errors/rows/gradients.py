"""Obstacles to a gradient: kernels without rules, and rules that return the wrong thing."""

from course_lib.errors.row import Row


def _arguments_and_gradients(got: str, want: str) -> dict[str, str]:
    """Say how many cotangents there are, and how many arguments."""
    if got.startswith("("):
        found = _counted(got, "cotangent")
    else:
        found = "nothing" if got == "None" else "one array"
    return {"got": found, "want": f"there {'is' if want.count('*') == 1 else 'are'} {_counted(want, 'argument')}"}


def _counted(tree: str, what: str) -> str:
    """Count the entries of a tuple as JAX prints its structure: "2 arguments" for "(*, None)", say."""
    number = len([part for part in tree.strip("()").split(",") if part.strip()])
    return f"{number} {what}{'' if number == 1 else 's'}"


_BY = r"while a kernel was differentiated(?P<asks>, at pl\.program_id)?, by "
_LINE = r"(?P<line> \(line [^)]*\))?"


def _forwards(asks: str, how: str, line: str) -> dict[str, str]:
    """Say what JAX's own forward derivative of a kernel stops at."""
    instead = "write the derivative with jax.custom_jvp: its rule returns the output and the tangent, by kernels or not"
    if asks == "?":
        what = "but not for one with scratch buffers, aliases or copies by hand, nor for pl.kernel"
    else:
        what = "but not for one that calls pl.program_id"
        instead += (
            "; or pass the index in as an input, with zeros as its tangent: jnp.arange(float(n)).reshape(n, 1, 1) in "
            "SMEM"
        )
    return {"line": _known(line), "what": what, "instead": instead}


def _known(line: str) -> str:
    """Return " (line 3 of f)" with the space that the search has taken away, or ""."""
    return "" if line == "?" else f" {line}"


def _line(line: str, **_) -> dict[str, str]:
    return {"line": _known(line)}


ROWS = (
    Row(
        "gradient-in-a-rule",
        _BY + r"(?P<how>(?!jvp|jacfwd|linearize)\w+)" + _LINE + r" in the (?P<rule>\w+) rule of (?P<name>[^\n]+)",
        "The {rule} rule of {name} asks JAX for the derivative of a kernel, jax.{how}{line}, but JAX has none: the "
        "rule is there to provide it.",
        "write out the mathematics in the rule, in plain JAX or as a kernel; or call jax.vjp on a reference in plain "
        "JAX.",
        "10",
        _line,
    ),
    Row(
        "gradient-twice",
        r"while a kernel was differentiated(?:, at pl\.program_id)?, a second time, in the (?P<rule>\w+) rule of "
        r"(?P<name>[^\n]+)",
        "JAX was asked for a second derivative through {name}: it differentiates the {rule} rule, which calls a "
        "kernel that has no rules of its own.",
        "in the rules of {name}, call functions that have a custom_vjp themselves, such as {name}; or write the rules "
        "in plain JAX.",
        "10",
    ),
    Row(
        "gradient-forwards",
        _BY + r"(?P<how>jvp|jacfwd)\b" + _LINE,
        "jax.{how}{line} asks for the forward derivative of a kernel. JAX can derive it for most kernels, {what}.",
        "{instead}.",
        "10",
        _forwards,
    ),
    Row(
        "gradient-linearize",
        _BY + r"(?P<how>linearize)\b" + _LINE,
        "jax.linearize{line} was called on a kernel, but JAX cannot separate the derivative of a kernel from its "
        "value.",
        "write the derivative with jax.custom_jvp: its rule returns the output, by a kernel, and the tangent. jax.jvp "
        "computes both at once, and works for most kernels.",
        "10",
        _line,
    ),
    Row(
        "gradient",
        r"while a kernel was differentiated|Linearization failed to produce known values for all output primals|"
        r"Differentiation rule for '(?:mpmd_map|core_map)' not implemented",
        "JAX was asked for a gradient through a kernel, but has no backward pass for this kernel.",
        "write the backward pass, in plain JAX or as a kernel, and attach it with jax.custom_vjp.",
        "10",
    ),
    Row(
        "gradient-jvp-of-custom-vjp",
        r"can't apply forward-mode autodiff \(jvp\) to a custom_vjp function",
        "JAX was asked for a forward derivative (jvp) of a function that has a jax.custom_vjp{where}. Such a function "
        "supports only reverse-mode differentiation.",
        "call jax.vjp or jax.grad; or, if you need the forward derivative, give the function a jax.custom_jvp instead.",
        "10",
    ),
    Row(
        "gradient-checkpoint",
        r"Effects not supported in (?:partial-eval|AD) of `?checkpoint`?/`?remat`?",
        "A gradient through jax.checkpoint meets a kernel in the simulator, which uses callbacks that jax.checkpoint "
        "does not allow. On a TPU there are none.",
        "remove jax.checkpoint when you run it here; judges.judge_gradient judges the function as it is.",
        "10",
    ),
    Row(
        "gradient-undefined",
        r"No VJP defined for custom_vjp function (?P<name>\S+) using defvjp",
        "{name} has a jax.custom_vjp, but its forward and backward rules are missing.",
        "add below the function: {name}.defvjp(forward, backward).",
        "10",
    ),
    Row(
        "gradient-forward",
        r"Custom VJP fwd rule (?P<rule>\S+) for function (?P<name>\S+) must produce a pair",
        "{rule}, the forward rule of {name}, does not return a pair.",
        "return the result of {name}, and then everything that the backward rule needs, in one tuple: return y, (x, "
        "w).",
        "10",
    ),
    Row(
        "gradient-output",
        r"Under a gradient the function returns (?P<got>.*), and otherwise (?P<want>.*): the forward rule of its",
        "Under a gradient the function returns {got}, but otherwise {want}.",
        "the forward rule of its custom_vjp must return the same y as the function: return y, residuals.",
        "10",
    ),
    Row(
        "gradient-structure",
        r"Custom VJP bwd rule must produce an output with the same container.*got bwd output structure "
        r"PyTreeDef\((?P<got>.*?)\) for primal input structure PyTreeDef\((?P<want>.*?)\)\.?\s*$",
        "The backward function returns {got}, but {want}.",
        "return a tuple with one cotangent for each argument, in order: return dx, dy. A single one needs a comma: "
        "return (dx,). Return None for an argument without a gradient.",
        "10",
        _arguments_and_gradients,
    ),
    Row(
        "gradient-shape",
        r"Custom VJP bwd rule.*at output\[(?P<number>\d+)\] the bwd rule produced an output of type (?P<got>[^ ]+) "
        r"corresponding to an input of type (?P<want>\w+\[[^\]]*\])",
        "The backward function returns {got} for argument {number} (from 0), which is {want}.",
        "a cotangent has the shape of its argument: look for a sum over the wrong axis, or for two that are swapped.",
        "10",
    ),
)
