"""The text of a failure: an exception and its causes, with JAX's notation made readable."""

import re
import traceback

from course_lib.errors import derivatives

OURS = re.compile(r"[/\\\\]course_lib[/\\\\]")
_OF_A_LINE = re.compile(r"object is not iterable|unhashable type")
_UNDIFFERENTIATED = re.compile(
    r"Linearization failed to produce known values for all output primals|"
    r"Differentiation rule for '(?:mpmd_map|core_map)' not implemented"
)


def raw_text(error: BaseException) -> str:
    """Return the exception and those it was raised from, as "Type: message" lines, innermost first."""
    chain, lines = error, []
    while chain is not None and len(lines) < 8:
        if type(chain).__name__ != "JaxStackTraceBeforeTransformation":  # repeats the exception that it points to
            lines.append(f"{type(chain).__name__}: {words(chain)}")
        chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
    return "\n".join(reversed(lines))


def words(error: BaseException) -> str:
    """Return the message; if it says too little, add the functions that raised ``error``, innermost first."""
    message = str(error)
    within = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    if "_pallas_call_jvp_rule" in within or _UNDIFFERENTIATED.match(message):
        asks = ", at pl.program_id" if "program_id_bind_with_trace" in within else ""
        how = derivatives.asked_for(error.__traceback__, OURS)
        return f"{message or 'no message'}, while a kernel was differentiated{asks}{how}"
    if isinstance(error, NameError):  # adds the name that Python suggests
        said = traceback.TracebackException(type(error), error, error.__traceback__).format_exception_only()
        message = "".join(said).strip().partition(": ")[2]
    if type(error).__name__ == "TracerBoolConversionError" and _in_a_slice(error):
        return f"{message.splitlines()[0]} It was made for the end of a slice."
    asked = message.startswith("dynamic_update_slice") and _calls("dynamic_update_slice", error)
    if asked or (_OF_A_LINE.search(message) and _in_its_own_line(error)):
        return f"{message}, in the code itself"
    if message.startswith("too many values to unpack") and _in_an_index(error):
        return f"{message}, in the index of a ref"
    if message and not (message.endswith("object is not subscriptable") and _raised_by_pallas(error)):
        return message
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not OURS.search(f.filename)]
    functions = [frame.name for frame in frames][:-5:-1]
    return (message or "no message") + (f", from {', '.join(functions)}" if functions else "")


def _in_a_slice(error: BaseException) -> bool:
    """Whether JAX raised this while it read a slice such as [:n], rather than the kernel itself."""
    return any(frame.name == "from_slice" for frame in traceback.extract_tb(error.__traceback__))


def _calls(function: str, error: BaseException) -> bool:
    """Whether a line of the learner's calls a function by name; the simulator of a copy calls some, too."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "-packages" not in f.filename]
    return any(function in derivatives.called(frame) for frame in frames if not OURS.search(frame.filename))


def _in_its_own_line(error: BaseException) -> bool:
    """Whether a line of the learner's raised this by itself, rather than a function that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or OURS.search(frames[-1].filename) or "-packages" in frames[-1].filename:
        return False
    return "(" not in (derivatives.called(frames[-1]) or "(")


def _in_an_index(error: BaseException) -> bool:
    """Whether JAX raised this while it read the index of a ref."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.replace("\\", "/").endswith("jax/_src/state/indexing.py")


def _raised_by_pallas(error: BaseException) -> bool:
    """Whether Pallas' own code failed on its input."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and "jax/_src/pallas/" in frames[-1].filename.replace("\\", "/")


def tidy(text: str) -> str:
    """Write (8, 128), [0:8, 0:128] and input 0 for JAX's Blocked(block_size=8), slice(0, 8, 1) and args[0]."""
    text = re.sub(r"Blocked\(block_size=(\d+)\)", r"\1", text)
    text = re.sub(r"Element\(block_size=(\d+)(?:, padding=\([^)]*\))?\)", r"\1", text)
    text = re.sub(r" at /\S+?:\d+", "", text)  # paths on another machine are no help
    text = re.sub(r"[\w.<>]*<locals>\.", "", text)
    keras = r"Exception encountered when calling .*?\n\s*(?:\x1b\[\dm)?(.*?)(?:\x1b\[0m)?\s*\n\s*Arguments received.*"
    text = re.sub(keras, r"\1", text, flags=re.DOTALL)
    text = text.replace("Squeezed()", "None").replace("slice(None, None, None)", ":")
    text = re.sub(r"slice\((-?\d+), (-?\d+), 1\)", r"\1:\2", text)
    text = re.sub(r"\(((?:-?\d+:-?\d+(?:, |,)?)+)\)", lambda m: f"[{m[1].rstrip(',')}]", text)
    text = re.sub(r"\bargs\[(\d+)\]", r"input \1", text)
    return re.sub(r"\bfor outputs(?:\[(\d+)\])?", lambda m: f"for output {m[1]}" if m[1] else "for the output", text)
