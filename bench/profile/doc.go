// Package profile writes CPU profiles of the programs that are compared, so that each of them stays about what it does.
package profile
