// Command summary merges files of campaign results and prints the table of docs/verification.md. It fails when they are no whole
// campaign, unless -partial says that they are not meant to be one.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/tallystick/tallystick/integration/campaign/results"
)

func main() {
	partial := flag.Bool("partial", false, "the table alone: of a campaign that is not whole, too")
	flag.Parse()
	if err := run(flag.Args(), *partial); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(files []string, partial bool) error {
	if len(files) == 0 {
		return fmt.Errorf("no file of results: name at least one")
	}
	var all results.Log
	for _, name := range files {
		l, err := results.Read(name)
		if err != nil {
			return err
		}
		all.Faults, all.Rounds = append(all.Faults, l.Faults...), append(all.Rounds, l.Rounds...)
	}
	text, err := results.Summary(all)
	if err != nil {
		return err
	}
	fmt.Print(text)
	if partial {
		return nil
	}
	return results.Shortfall(all)
}
