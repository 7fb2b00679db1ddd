// Command summary merges files of simulated worlds and prints the tables of docs/verification.md. It refuses worlds of two engines
// or judges.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/tallystick/tallystick/internal/evidence"
	"github.com/tallystick/tallystick/internal/simulation/worlds"
)

func main() {
	text, err := merge(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// merge is the summary of all worlds in the files.
func merge(files []string) (string, error) {
	if len(files) == 0 {
		return "", errors.New("no file of results: name those that make simulate wrote to (RESULTS=file)")
	}
	var all []worlds.World
	for _, name := range files {
		some, err := evidence.Read[worlds.World](name)
		if err != nil {
			return "", err
		}
		all = append(all, some...)
	}
	return worlds.Summary(all)
}
