"""The kinds of exercises. Each kind's module turns an exercise and an answer into a Verdict."""

from course_lib.checks.kinds import choose, compute, explain, find, kernel, predict, several

# Kind -> who judges an answer; kind -> what ``asks`` of such an exercise is.
JUDGED = ("write", "configure", "repair")
ASKS = {
    "predict": predict.Predict,
    "choose": choose.Choose,
    "find": find.Find,
    "explain": explain.Explain,
    "compute": compute.Compute,
    "several": several.Several,
}
VERDICTS = dict.fromkeys(JUDGED, kernel.verdict) | {
    "predict": predict.verdict,
    "choose": choose.verdict,
    "find": find.verdict,
    "explain": explain.verdict,
    "compute": compute.verdict,
    "several": several.verdict,
}
