package verify

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says which job is audited. App and Window are required; the zero value of the rest is the default named.
type Config struct {
	// Opts reach the brokers: seeds, TLS, SASL, dialer. Consumer and producer options have no effect: verify fetches itself.
	Opts []kgo.Opt
	// App is the job's application.id, hence its group.
	App string
	// Topics are the job's; empty names are those of `processor run`.
	Topics Topics
	// Window is dedupe.window. It must be the one that the whole history was processed with.
	Window time.Duration
	// AutoCreate is accounts.auto_create.
	AutoCreate bool
	// Partitioner is partitioner: how keys were placed in the input, and so in updates and skipped notes. murmur2 (default),
	// crc32 or fnv1a.
	Partitioner string
	// Start is the first input offset to judge by partition, for a job that began at the end of its input; default the
	// beginning.
	Start map[int32]int64
	// Now is the wall clock; default time.Now. It tells inputs that are stamped ahead of it, and how old a marker is.
	Now func() time.Time
	// Patience bounds each wait: for open transactions, and for brokers that do not answer. Default 40 s, which is longer
	// than the job's transaction.timeout.ms and the brokers' scan for it together.
	Patience time.Duration
	// Workers is how many partitions are judged at once, each with an inbox of its own in memory. Default: two, or one on a
	// single processor.
	Workers int
	// Raw reads every log a second time, control records and aborted transactions included, and judges AbortedRead, Torn and
	// Flicker too. It needs about 500 bytes of memory for each transaction and partition that it wrote to, and a byte for each record.
	Raw bool
	// Memory bounds what event ids take, in bytes; default 512 MiB, with Raw 384 MiB to make room for what that remembers; at least
	// 1 MiB. What does not fit is sorted on disk.
	Memory int64
	// SpillDir is the folder for that; default the system's for temporary files. Nothing is left in it, however the process ends.
	SpillDir string
	// Baseline is the file of an earlier audit to go on from; what that one judged is not judged again.
	Baseline string
	// WriteBaseline is the file that a later audit can go on from. It is written at the end, when everything holds, whole or
	// not at all, and may be Baseline itself.
	WriteBaseline string
	// Liveness is how long what stands in the input may wait while the group has members; zero does not ask.
	Liveness time.Duration
	// Progress is told now and then how far the judgement is, in offsets of the input. It is never called concurrently.
	Progress func(done, total int64)
}

// Topics names what a ledger job reads and writes.
type Topics struct {
	Input       string // the events; default credit-events
	Updates     string // default ledger-updates
	Skipped     string // default ledger-skipped
	DeadLetters string // default <app>-dead-letters
	State       string // default <app>-post-state
}

const defaultPatience = 40 * time.Second

// withDefaults returns the configuration that Run uses.
func (c Config) withDefaults() Config {
	c.Topics = c.Topics.withDefaults(c.App)
	if c.Partitioner == "" {
		c.Partitioner = "murmur2"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Workers == 0 {
		c.Workers = min(2, runtime.GOMAXPROCS(0))
	}
	if c.Memory == 0 {
		c.Memory = defaultMemory
		if c.Raw {
			c.Memory = rawMemory
		}
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	return c
}

func (t Topics) withDefaults(app string) Topics {
	for _, d := range []struct {
		name *string
		text string
	}{
		{&t.Input, "credit-events"}, {&t.Updates, "ledger-updates"}, {&t.Skipped, "ledger-skipped"},
		{&t.DeadLetters, app + "-dead-letters"}, {&t.State, app + "-post-state"},
	} {
		if *d.name == "" {
			*d.name = d.text
		}
	}
	return t
}

// validate joins all that is wrong with the configuration.
func (c Config) validate() error {
	var errs []error
	if c.App == "" {
		errs = append(errs, errors.New("config: App is empty: give the job's application.id"))
	}
	if c.Window < time.Millisecond {
		errs = append(errs, fmt.Errorf("config: Window is %v: give the job's dedupe.window, at least 1ms", c.Window))
	}
	if _, ok := placement(c.Partitioner); !ok {
		errs = append(errs, fmt.Errorf("config: Partitioner is %q: use murmur2, crc32 or fnv1a", c.Partitioner))
	}
	if kept := c.Baseline != "" || c.WriteBaseline != ""; kept && c.Raw {
		errs = append(errs, errors.New("config: Raw reads whole logs, and does not go with a baseline: run it on its own"))
	}
	if c.Memory < leastMemory {
		errs = append(errs, fmt.Errorf("config: Memory is %d bytes: give at least %d", c.Memory, leastMemory))
	}
	if c.Patience < 0 || c.Workers < 0 || c.Liveness < 0 {
		errs = append(errs, fmt.Errorf("config: Patience is %v, Workers %d and Liveness %v: none may be negative", c.Patience, c.Workers, c.Liveness))
	}
	return errors.Join(errs...)
}
