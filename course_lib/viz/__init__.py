"""Pictures and widgets: data in, picture out. Nothing here runs a kernel. Each widget has a folder."""

from course_lib.viz.bundle_viewer.bundle_diff import bundle_diff
from course_lib.viz.bundle_viewer.bundle_viewer import BundleViewer, bundle_viewer
from course_lib.viz.bundle_viewer.unroll_viewer import unroll_viewer
from course_lib.viz.capability_matrix.capability_matrix import CapabilityMatrix, capability_matrix
from course_lib.viz.choices.attention_roof import attention_roof
from course_lib.viz.choices.block_map import block_map
from course_lib.viz.choices.choices import Choices
from course_lib.viz.choices.core_splitter import core_splitter
from course_lib.viz.choices.density_data import Sparse
from course_lib.viz.choices.density_dial import density_dial
from course_lib.viz.choices.expert_map import expert_map
from course_lib.viz.choices.mask_painter import mask_painter
from course_lib.viz.common.picture import Picture
from course_lib.viz.cost_bars.cost_bars import CostBars, cost_bars
from course_lib.viz.flow_player.flow_player import FlowPlayer
from course_lib.viz.flow_player.gradient_flow import gradient_flow
from course_lib.viz.flow_player.stages import Stage
from course_lib.viz.flow_player.traffic import traffic
from course_lib.viz.grid_player.grid_player import GridPlayer, grid_player
from course_lib.viz.memory_ladder.memory_ladder import MemoryLadder, memory_ladder
from course_lib.viz.page_player.page_player import PagePlayer, page_player
from course_lib.viz.pictures.chains import chains
from course_lib.viz.pictures.core_picture import core_picture
from course_lib.viz.pictures.plots import PLOT_STYLE, plot_picture
from course_lib.viz.pictures.search_map import search_map
from course_lib.viz.pictures.sm_picture import sm_picture
from course_lib.viz.pictures.sparse_core_picture import sparse_core_picture
from course_lib.viz.pictures.sum_over_axis import sum_over_axis
from course_lib.viz.pictures.trace_lanes import trace_lanes
from course_lib.viz.pipeline_chart.pipeline_chart import PipelineChart, pipeline_chart
from course_lib.viz.pipeline_chart.predicted_trace import predicted_trace
from course_lib.viz.precision_explorer.precision_explorer import PrecisionExplorer, precision_explorer
from course_lib.viz.ring_player.ring_player import RingPlayer, ring_player
from course_lib.viz.roof_plot.roof_plot import RoofPlot, roof_plot
from course_lib.viz.roof_plot.roofs import Point, three_roofs
from course_lib.viz.softmax_stepper.softmax_stepper import SoftmaxStepper, softmax_stepper
from course_lib.viz.systolic_stepper.systolic_stepper import SystolicStepper, systolic_stepper
from course_lib.viz.three_engines.three_engines import ThreeEngines, three_engines
from course_lib.viz.tile_painter.tile_painter import TilePainter, tile_painter
from course_lib.viz.token_meter.token_meter import TokenMeter, token_meter
from course_lib.viz.vmem_table.vmem_table import VmemTable, vmem_table

__all__ = [
    "PLOT_STYLE",
    "BundleViewer",
    "CapabilityMatrix",
    "Choices",
    "CostBars",
    "FlowPlayer",
    "GridPlayer",
    "MemoryLadder",
    "PagePlayer",
    "Picture",
    "PipelineChart",
    "Point",
    "PrecisionExplorer",
    "RingPlayer",
    "RoofPlot",
    "SoftmaxStepper",
    "Sparse",
    "Stage",
    "SystolicStepper",
    "ThreeEngines",
    "TilePainter",
    "TokenMeter",
    "VmemTable",
    "attention_roof",
    "block_map",
    "bundle_diff",
    "bundle_viewer",
    "capability_matrix",
    "chains",
    "core_picture",
    "core_splitter",
    "cost_bars",
    "density_dial",
    "expert_map",
    "gradient_flow",
    "grid_player",
    "mask_painter",
    "memory_ladder",
    "page_player",
    "pipeline_chart",
    "plot_picture",
    "precision_explorer",
    "predicted_trace",
    "ring_player",
    "roof_plot",
    "search_map",
    "sm_picture",
    "softmax_stepper",
    "sparse_core_picture",
    "sum_over_axis",
    "systolic_stepper",
    "three_engines",
    "three_roofs",
    "tile_painter",
    "token_meter",
    "trace_lanes",
    "traffic",
    "unroll_viewer",
    "vmem_table",
]
