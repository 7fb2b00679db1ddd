// Command suites runs the test suites of CI one after the other, counts what each of them ran, and reports.
//
// A suite fails when a test fails, when a test is skipped that no other suite runs, when it ran no test, and when it did not
// run what its entry in the table says it must. The others run all the same, so that one report shows everything.
//
// Usage: suites [name…]; without a name, all. It writes under .ci/out: one log a suite, and ci-summary.json, or
// partial-summary.json when suites were named.
package main
