// Command replay lives a simulated world again, exactly: every log line, record and time stamp is the same each time.
//
// The simulation (internal/simulation) is compiled for wasip1 and run by wazero. There one thread runs all goroutines, and
// everything that could differ from run to run comes through a few calls of the host: random numbers, which the Go runtime
// wants for the order of maps and selects and programs for all else; the clock; and a folder. Here the random numbers come from
// a seed, the clock is a script that advances by a microsecond a look, and the folder is empty. So the seed of a world and the
// number of a schedule (the seed of those random numbers) say all there is to say about a run.
//
//	go run . -seed 7                        # live seed 7 and say what came of it
//	go run . -seed 7 -twice                 # live it twice and compare every byte
//	go run . -seed 7 -job TwoHops -schedules 20   # look for a schedule that fails
//	go run . -corpus                        # the interesting lives of corpus.jsonl: clean, and still interesting
//	go run . -renew                         # find others for those that have lost their point
//
// A native run of the simulation schedules goroutines as the machine likes, so its failing seed is a replay's only when one
// of the schedules meets the same fault.
//
// This is a Go module of its own, so that wazero never enters the dependencies of who uses the library.
package main
