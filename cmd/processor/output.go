package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/vbauerster/cupwriter"
)

// outputFormat is the value of -o; its zero value is a table.
type outputFormat string

const (
	formatTable outputFormat = "table"
	formatJSON  outputFormat = "json"
	formatJSONL outputFormat = "jsonl"
)

var formats = []outputFormat{formatTable, formatJSON, formatJSONL}

// String, Set and Type make it a flag.
func (f *outputFormat) String() string { return string(f.orTable()) }
func (f *outputFormat) Type() string   { return "format" }
func (f *outputFormat) Set(s string) error {
	if !slices.Contains(formats, outputFormat(s)) {
		return fmt.Errorf("%q is no output format: use table, json or jsonl", s)
	}
	*f = outputFormat(s)
	return nil
}

func (f *outputFormat) orTable() outputFormat {
	if *f == "" {
		return formatTable
	}
	return *f
}

// withoutFormat refuses -o on a command that has no data in another form.
func withoutFormat(cmd *cobra.Command, instead string) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("output") {
			return usageErrorf("%s has no -o: %s", cmd.CommandPath(), instead)
		}
		return nil
	}
	return cmd
}

// list writes items of one kind to stdout, in the format of -o: aligned columns, one JSON array, or one object a line.
// jsonl is written item by item; the other two appear on close. Not safe for concurrent use.
type list[T any] struct {
	w      io.Writer
	format outputFormat
	cells  func(T) []string
	rows   [][]string // the header first
	items  []T
}

// newList starts a list. header names the columns of the table, cells gives one row of it.
func newList[T any](c *cli, header []string, cells func(T) []string) *list[T] {
	return &list[T]{w: c.stdout, format: c.format.orTable(), cells: cells, rows: [][]string{header}, items: []T{}}
}

func (l *list[T]) add(item T) error {
	switch l.format {
	case formatJSONL:
		return writeJSON(l.w, item, "")
	case formatJSON:
		l.items = append(l.items, item)
	default:
		l.rows = append(l.rows, l.cells(item))
	}
	return nil
}

// close writes what add held back. Without items it writes the header or an empty array: a script sees that it is empty.
func (l *list[T]) close() error {
	switch l.format {
	case formatJSONL:
		return nil
	case formatJSON:
		return writeJSON(l.w, l.items, "  ")
	default:
		return writeLines(l.w, aligned(l.rows))
	}
}

// printList is newList, add for every item, close.
func printList[T any](c *cli, header []string, items []T, cells func(T) []string) error {
	l := newList(c, header, cells)
	for _, item := range items {
		if err := l.add(item); err != nil {
			return err
		}
	}
	return l.close()
}

// printOne writes one value: text as it is for a table, v as JSON otherwise.
func printOne(c *cli, v any, text string) error {
	switch c.format.orTable() {
	case formatJSON:
		return writeJSON(c.stdout, v, "  ")
	case formatJSONL:
		return writeJSON(c.stdout, v, "")
	default:
		return writeLines(c.stdout, text)
	}
}

func writeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(v)
}

func writeLines(w io.Writer, text string) error {
	_, err := io.WriteString(w, strings.TrimRight(text, "\n")+"\n")
	return err
}

// aligned pads the cells of each column to the same number of characters, without lines and without trailing blanks: cut,
// awk and diff can work on it.
func aligned(rows [][]string) string {
	widths := map[int]int{}
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// isTerminal reports whether w is a terminal that may be redrawn.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && cupwriter.New(f, false).IsTerminal()
}

// colour reports whether w may be coloured: a terminal, and NO_COLOR unset or empty.
func (c *cli) colour(w io.Writer) bool { return c.getenv("NO_COLOR") == "" && isTerminal(w) }
