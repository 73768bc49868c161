"""Reading what the compiler writes: its programs, its VMEM, the optimized HLO, the critical path."""
