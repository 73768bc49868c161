"""Pictures and widgets: data in, picture out. Nothing here runs a kernel."""

from course_lib.viz.grid_player import GridPlayer, grid_player
from course_lib.viz.picture import Picture

__all__ = ["GridPlayer", "Picture", "grid_player"]
