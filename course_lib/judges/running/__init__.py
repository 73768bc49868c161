"""How kernels run for the judges: interpreter, simulator, pulled back, with a time limit."""
