package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// confirm asks a question on the terminal. Without a terminal nobody can answer: then it is changes pending (exit 2), and --yes
// is the way.
func (c *cli) confirm(question string) error {
	if !c.interactive() {
		fmt.Fprintln(c.stderr, "nothing was done: add --yes to do it")
		return silent(exitUsage)
	}
	fmt.Fprintf(c.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(c.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	fmt.Fprintln(c.stderr, "nothing was done")
	return silent(exitUsage)
}

// interactive reports whether somebody can be asked: both where the question goes and where the answer comes from are terminals.
func (c *cli) interactive() bool {
	in, ok := c.stdin.(*os.File)
	return ok && isTerminal(in) && isTerminal(c.stderr)
}

// operator names who gives the command, as this machine says.
func (c *cli) operator() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME", "USERNAME"} {
		if user := c.getenv(name); user != "" {
			return user + "@" + host
		}
	}
	return "uid " + fmt.Sprint(os.Getuid()) + "@" + host
}

// counted is a number and a noun that fits it.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// joinAnd lists names for people.
func joinAnd(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
