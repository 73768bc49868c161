"""Readers of the compiler's output: its programs, its VMEM, the optimized HLO, the critical path."""
