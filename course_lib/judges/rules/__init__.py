"""Why a result is wrong: rules that each say a reason and what to try, or nothing."""
