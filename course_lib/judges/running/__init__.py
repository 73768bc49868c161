"""How the judges run kernels: interpreter, simulator, vjp, random arguments, a limit on waiting."""
