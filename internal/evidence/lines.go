package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Append adds v as one line of JSON to a file, which it creates when it is missing. The line is on disk when Append returns. A
// last line that an earlier run could not finish is ended first, so that it spoils no other. One process appends at a time.
func Append(file string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("results: %w: name a file that can be written", err)
	}
	err = appendLine(f, append(line, '\n'))
	return errors.Join(err, f.Close())
}

func appendLine(f *os.File, line []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	var last [1]byte
	if end > 0 {
		if _, err := f.ReadAt(last[:], end-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.WriteAt(line, end); err != nil {
		return err
	}
	return f.Sync()
}

// Read returns the lines of a file of results, oldest first; none when the file is missing. A line that its run could not finish
// is left out: it ends before its last brace. Any other line that does not fit is an error.
func Read[T any](file string) ([]T, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []T
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		var v T
		err := json.Unmarshal(line, &v)
		if torn(line, err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s line %d is no result: %w: was the file written by another version?", file, i+1, err)
		}
		all = append(all, v)
	}
	return all, nil
}

// torn reports whether decoding a line failed at its very end.
func torn(line []byte, err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) && syntax.Offset >= int64(len(line))
}
