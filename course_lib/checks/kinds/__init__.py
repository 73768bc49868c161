"""The kinds of exercises. Each kind's module turns an exercise and an answer into a Verdict."""

from course_lib.checks.kinds import choose, explain, find, kernel, predict

# Kind -> who judges an answer; kind -> what ``asks`` of such an exercise is.
JUDGED = ("write", "configure", "repair")
ASKS = {"predict": predict.Predict, "choose": choose.Choose, "find": find.Find, "explain": explain.Explain}
VERDICTS = dict.fromkeys(JUDGED, kernel.verdict) | {
    "predict": predict.verdict,
    "choose": choose.verdict,
    "find": find.verdict,
    "explain": explain.verdict,
}
