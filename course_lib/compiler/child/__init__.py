"""The child process in which libtpu lives, and what is asked of it."""
