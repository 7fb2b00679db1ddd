package verify

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// SpillError says that what does not fit into Memory could not be kept on disk. Nothing is known to be wrong with the history.
type SpillError struct {
	Dir string // where the temporary files are
	Err error
}

func (e *SpillError) Error() string {
	return fmt.Sprintf("spill event ids to %s: %v: free space there (24 to 100 bytes an event), name another folder, or allow more memory", e.Dir, e.Err)
}

// Unwrap returns the cause, such as syscall.ENOSPC.
func (e *SpillError) Unwrap() error { return e.Err }

// scratchFile is a temporary file: written once from front to back, then read anywhere.
type scratchFile interface {
	io.Writer
	io.ReaderAt
	io.Closer // also removes it
}

// scratch makes temporary files; a test makes its own.
type scratch func() (scratchFile, error)

// scratchIn makes temporary files in a folder, the system's own if dir is empty.
func scratchIn(dir string) scratch {
	if dir == "" {
		dir = os.TempDir()
	}
	return func() (scratchFile, error) {
		f, err := os.CreateTemp(dir, "tallystick-verify-*")
		if err != nil {
			return nil, &SpillError{dir, err}
		}
		// A file without a name goes with the process, however that ends. Where the system refuses (Windows), Close removes it.
		named := os.Remove(f.Name()) != nil
		return &tempFile{f, dir, named}, nil
	}
}

type tempFile struct {
	file  *os.File
	dir   string
	named bool
}

func (f *tempFile) Write(b []byte) (int, error) {
	n, err := f.file.Write(b)
	if err != nil {
		err = &SpillError{f.dir, err}
	}
	return n, err
}

func (f *tempFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.file.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &SpillError{f.dir, err}
	}
	return n, err
}

func (f *tempFile) Close() error {
	err := f.file.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	return err
}
