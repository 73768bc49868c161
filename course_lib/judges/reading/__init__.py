"""What the code of a kernel says before it runs: memory, copies, the order of its grid."""
