"""The kinds of exercises. Each kind's module turns an exercise and an answer into a Result."""

from course_lib.checks.kinds import choose, compute, explain, find, golf, kernel, predict, project, several

# JUDGED: the kinds that the judges decide; ASKS: kind -> the type of ``asks``; RESULTS: kind -> what judges it.
JUDGED = ("write", "configure", "repair", "golf", "project")
ASKS = {
    "predict": predict.Predict,
    "choose": choose.Choose,
    "find": find.Find,
    "explain": explain.Explain,
    "compute": compute.Compute,
    "several": several.Several,
}
RESULTS = dict.fromkeys(JUDGED, kernel.result) | {
    "golf": golf.result,
    "project": project.result,
    "predict": predict.result,
    "choose": choose.result,
    "find": find.result,
    "explain": explain.result,
    "compute": compute.result,
    "several": several.result,
}
