"""Pictures and widgets: data in, picture out. Nothing here runs a kernel."""

from course_lib.viz.grid_player import GridPlayer, grid_player

__all__ = ["GridPlayer", "grid_player"]
