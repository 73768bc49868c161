"""The kinds of exercises. Each kind's module turns an exercise and an answer into a Result."""

from course_lib.checks.kinds import choose, compute, explain, find, golf, kernel, predict, several

# Kind -> who judges an answer; kind -> what ``asks`` of such an exercise is.
JUDGED = ("write", "configure", "repair", "golf")
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
    "predict": predict.result,
    "choose": choose.result,
    "find": find.result,
    "explain": explain.result,
    "compute": compute.result,
    "several": several.result,
}
