"""Public Pallas kernels before the judges: the data and the page of docs/public_kernels.md."""
