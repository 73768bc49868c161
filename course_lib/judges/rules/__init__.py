"""Why an output is wrong: rules that each return a reason and what to try, or None."""
