"""Pictures and widgets: data in, picture out. Nothing here runs a kernel."""

from course_lib.viz.grid_player import GridPlayer, grid_player
from course_lib.viz.picture import Picture
from course_lib.viz.pipeline_chart import PipelineChart, pipeline_chart
from course_lib.viz.plots import PLOT_STYLE, plot_picture
from course_lib.viz.roof_plot import RoofPlot, roof_plot
from course_lib.viz.roofs import Point, three_roofs
from course_lib.viz.vmem_table import VmemTable, vmem_table

__all__ = [
    "PLOT_STYLE",
    "GridPlayer",
    "Picture",
    "PipelineChart",
    "Point",
    "RoofPlot",
    "VmemTable",
    "grid_player",
    "pipeline_chart",
    "plot_picture",
    "roof_plot",
    "three_roofs",
    "vmem_table",
]
