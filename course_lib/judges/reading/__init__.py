"""What the code of a kernel shows before it runs: memory, copies, the order of its grid."""
