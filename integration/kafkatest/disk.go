package kafkatest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// errNoDisk says that no file system can be mounted here.
var errNoDisk = errors.New("no tmpfs can be mounted")

// A disk is a small file system of its own in memory for a broker's data, so that it can be full while the machine's is not.
type disk struct {
	dir   string
	guard *exec.Cmd
	hold  io.Closer // the guard unmounts when it is closed, also by the end of this process
}

// newDisk mounts a tmpfs of so many MiB at dir, for as long as this process lives or until unmount. It needs root.
func newDisk(dir string, mib int) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", mib), "tallystick-test", dir).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w: %s", errNoDisk, dir, err, out)
	}
	d := &disk{dir: dir, guard: exec.Command("sh", "-c", `cat >/dev/null; umount -l "$1"`, "sh", dir)}
	d.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives whoever ends the test's process group
	if d.hold, err = d.guard.StdinPipe(); err == nil {
		err = d.guard.Start()
	}
	if err != nil {
		return nil, errors.Join(err, exec.Command("umount", "-l", dir).Run())
	}
	return d, nil
}

// unmount is nothing for a broker without a disk of its own.
func (d *disk) unmount() error {
	if d == nil || d.guard.ProcessState != nil {
		return nil
	}
	d.hold.Close()
	if err := d.guard.Wait(); err != nil {
		return fmt.Errorf("unmount %s: %w: run umount -l on it", d.dir, err)
	}
	return nil
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill writes until nothing more fits.
func (d *disk) fill() error {
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

// FillDisk leaves no room on the broker's disk (Options.DiskMiB). A broker that cannot write ends itself: see Ended.
func (b *Broker) FillDisk(t testing.TB) {
	t.Helper()
	if err := b.disk.fill(); err != nil {
		t.Fatalf("fill the disk of broker %d: %v", b.ID, err)
	}
}

// FreeDisk ends FillDisk; a broker that has ended can be started again.
func (b *Broker) FreeDisk(t testing.TB) {
	t.Helper()
	if err := os.Remove(b.disk.ballast()); err != nil {
		t.Fatalf("free the disk of broker %d: %v", b.ID, err)
	}
}
