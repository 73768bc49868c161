"""The child process that loads libtpu, and the requests it answers."""
