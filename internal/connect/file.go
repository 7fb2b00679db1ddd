package connect

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// file is a file that may be replaced while the process runs. It is read at every use and believed only as a whole: whoever
// replaces it may be in the middle of it.
type file[T any] struct {
	key   string // the configuration's, for messages
	path  string
	parse func([]byte) (T, error)
	log   *slog.Logger // told of a file that is not believed, once for each reason

	mu    sync.Mutex
	text  []byte // what value was made of
	value T
	known bool
	said  string
}

// load returns what the file says now, or what it last said when it cannot be read as a whole. The error is about a file that
// has never been readable.
func (f *file[T]) load() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := os.ReadFile(f.path)
	if err == nil && f.known && bytes.Equal(text, f.text) {
		f.said = ""
		return f.value, nil
	}
	var value T
	if err == nil {
		value, err = f.parse(text)
	}
	switch {
	case err == nil:
		if f.known {
			f.log.Info("a file was replaced: the next connections use it", "key", f.key, "file", f.path)
		}
		f.text, f.value, f.known, f.said = text, value, true, ""
	case !f.known:
		return value, fmt.Errorf("%s: %s: %w", f.key, f.path, err)
	case err.Error() != f.said:
		f.said = err.Error()
		f.log.Warn("a file cannot be read as a whole: connections go on with what it held before; write it anew beside its place and move it there", "key", f.key, "file", f.path, "err", err)
	}
	return f.value, nil
}
