"""Keras on its JAX backend, or an ImportError that says what to do if it is missing or on another backend."""

_TO_DO = (
    'Set KERAS_BACKEND=jax before keras is imported, os.environ["KERAS_BACKEND"] = "jax" in the first cell of a '
    "notebook, and restart Python."
)


def _imported():
    try:
        import keras
    except ModuleNotFoundError as error:
        if error.name == "keras":
            raise ImportError("course_lib.frameworks.keras: Keras is not installed. Try pip install keras.") from error
        raise ImportError(
            f"course_lib.frameworks.keras runs on Keras' JAX backend, but Keras asked for {error.name}. {_TO_DO}"
        ) from error
    backend = keras.backend.backend()
    if backend != "jax":
        raise ImportError(
            f"course_lib.frameworks.keras runs on Keras' JAX backend, but Keras is on {backend}. {_TO_DO}"
        )
    return keras


keras = _imported()


def check_dtype(layer) -> None:
    """Raise ValueError if the compute dtype of ``layer`` is one that no kernel takes."""
    if layer.compute_dtype not in ("float32", "bfloat16"):
        raise ValueError(
            f"{type(layer).__name__}: {layer.name!r} would compute in {layer.compute_dtype}; it may be float32 or "
            "bfloat16. Try dtype='float32' or dtype='mixed_bfloat16'."
        )
