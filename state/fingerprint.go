package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FingerprintText describes a stage as its state depends on it: sorted lines, each ended by a newline. It is stored in each
// marker and compared at restore by CheckFingerprint.
func FingerprintText(stage string, partitions int32, inputs []string, specs []*Spec) string {
	lines := []string{fmt.Sprintf("stage %s partitions=%d inputs=%s\n", stage, partitions, strings.Join(slices.Sorted(slices.Values(inputs)), ","))}
	for _, s := range specs {
		window := "-"
		if s.Kind == KindDedupe {
			window = s.Window.String()
		}
		lines = append(lines, fmt.Sprintf("store %s %s key=%s value=%s window=%s\n", s.Name, s.Kind, orDash(s.KeyCodec), orDash(s.ValueCodec), window))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

const partitionerLine = "partitioner "

// WithPartitioner adds to the text of a stage how the engine places its records, where it does: those of a repartition topic.
func WithPartitioner(text, partitioner string) string {
	return partitionerLine + partitioner + "\n" + text
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// topology is a fingerprint text taken apart.
type topology struct {
	stage       stageLine
	stores      map[string]storeLine
	partitioner string // its line, "" without one
}

type stageLine struct {
	text, name, partitions string
	inputs                 []string
}

type storeLine struct {
	text, kind, key, value string
	window                 time.Duration // 0 = none
}

func parseTopology(text string) (topology, error) {
	t := topology{stores: map[string]storeLine{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		ok := false
		switch f := strings.Split(line, " "); f[0] {
		case "stage":
			ok = t.stage.text == "" && t.stage.parse(line, f)
		case "store":
			ok = t.addStore(line, f)
		case "partitioner":
			ok, t.partitioner = t.partitioner == "" && len(f) == 2, line
		}
		if !ok {
			return t, fmt.Errorf("topology fingerprint: line %q is not understood: a newer version wrote it, run that version", line)
		}
	}
	if t.stage.text == "" {
		return t, fmt.Errorf("topology fingerprint of %d bytes has no stage line: it is damaged", len(text))
	}
	return t, nil
}

func (s *stageLine) parse(line string, f []string) bool {
	if len(f) != 4 || !strings.HasPrefix(f[2], "partitions=") || !strings.HasPrefix(f[3], "inputs=") {
		return false
	}
	*s = stageLine{line, f[1], f[2][len("partitions="):], nil}
	if in := f[3][len("inputs="):]; in != "" {
		s.inputs = strings.Split(in, ",")
	}
	return true
}

func (t *topology) addStore(line string, f []string) bool {
	if len(f) != 6 || !strings.HasPrefix(f[3], "key=") || !strings.HasPrefix(f[4], "value=") || !strings.HasPrefix(f[5], "window=") {
		return false
	}
	if _, twice := t.stores[f[1]]; twice {
		return false
	}
	s := storeLine{text: line, kind: f[2], key: f[3][len("key="):], value: f[4][len("value="):]}
	if w := f[5][len("window="):]; w != "-" {
		d, err := time.ParseDuration(w)
		if err != nil || d <= 0 {
			return false
		}
		s.window = d
	}
	t.stores[f[1]] = s
	return true
}
