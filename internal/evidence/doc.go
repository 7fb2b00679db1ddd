// Package evidence keeps what long series of runs have found: which engine was tested, what judged it, and files of results to which
// one run after another adds a line.
//
// Results of two engines, or by two judges, say nothing about either. So each line names both, and who merges lines or adds to
// them refuses a mixture.
package evidence
