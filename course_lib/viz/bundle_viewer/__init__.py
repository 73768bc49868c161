"""The compiled program of a kernel, bundle by bundle: ``bundle_viewer``, ``bundle_diff``, ``unroll_viewer``."""
