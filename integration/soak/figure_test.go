package soak

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A figure is what one fault cost.
type figure struct {
	what  string
	bound time.Duration // took must stay below; 0: there is no time-out to beat
	took  time.Duration // until the job was whole again
	still time.Duration // readers of the output
}

// report logs a figure, adds it to the file that SOAK_SUMMARY names, and fails the test when its bound is broken.
func (s *site) report(t *testing.T, f figure) {
	t.Helper()
	bound := "none"
	if f.bound > 0 {
		bound = f.bound.String()
	}
	row := fmt.Sprintf("| %s | %s | `%s` | %s | %s | %s |", f.what, s.settings, t.Name(), seconds(f.took), seconds(f.still), bound)
	t.Log(row)
	if f.bound > 0 && f.took >= f.bound {
		t.Errorf("%s: %v, want less than %v", f.what, f.took.Round(time.Millisecond), f.bound)
	}
	if file := os.Getenv("SOAK_SUMMARY"); file != "" {
		addLine(t, file, row)
	}
}

func addLine(t *testing.T, file, line string) {
	t.Helper()
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := fmt.Fprintln(out, line); err != nil {
		t.Fatal(err)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
