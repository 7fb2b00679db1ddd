// Command summary merges files of campaign results and prints the table of docs/verification.md.
package main

import (
	"fmt"
	"os"

	"github.com/tallystick/tallystick/integration/campaign/results"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
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
	return nil
}
