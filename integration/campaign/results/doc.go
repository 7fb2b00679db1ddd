// Package results keeps what a fault campaign found: a file of lines that runs append to, and the table that comes of it. Which
// engine was tested, and how lines are kept, is package evidence's.
package results
