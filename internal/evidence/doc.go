// Package evidence keeps what long series of runs have found: which engine was tested, and files of results to which one run
// after another adds a line.
//
// Results of two engines say nothing about either. So each line names its engine, and who merges lines refuses a mixture.
package evidence
