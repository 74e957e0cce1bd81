"""The tables that follow from the recorded ones.

An argument is named for the function that returns it: `listed` is of `listings.listed_samples`,
`pairs` of `listings.rate_pairs`, `intervals` of `listings.intervals`, `folds` of `runs.run_folds`.
Samples that are shadowed do not count.
"""
