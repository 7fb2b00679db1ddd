package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	envPrefix  = "PROCESSOR_"
	envFile    = envPrefix + "CONFIG"
	configFlag = "config"
)

// configFlags gives cmd --config and one flag for every key of the groups. Keys of other groups still come from the file
// and the environment.
func configFlags(cmd *cobra.Command, groups ...keyGroup) {
	cmd.Flags().StringP(configFlag, "c", "", "configuration file (YAML), else $"+envFile)
	for i := range keys {
		if slices.Contains(groups, keys[i].group) {
			keyFlags(cmd, keys[i].name)
		}
	}
	cmd.Flags().SetNormalizeFunc(dottedFlags)
}

// keyFlags adds flags for single keys.
func keyFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		k := keyNamed(name)
		f := cmd.Flags().VarPF(&rawFlag{text: k.def}, flagName(name), "", firstSentence(k.doc))
		if k.limit == trueOrFalse {
			f.NoOptDefVal = "true"
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, k.complete) // fails only for a flag that does not exist
	}
}

// allGroups is what run takes.
func allGroups() []keyGroup { return slices.Sorted(maps.Keys(groupTitles)) }

// rawFlag keeps the text of a flag; the key's own rule reads it later, with all other problems.
type rawFlag struct{ text string }

func (r *rawFlag) String() string     { return r.text }
func (r *rawFlag) Set(s string) error { r.text = s; return nil }
func (r *rawFlag) Type() string       { return "value" }

// flagName spells a key as a flag: bootstrap.servers is --bootstrap-servers. The key's own spelling is accepted too.
func flagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

// envName spells a key as a variable: bootstrap.servers is PROCESSOR_BOOTSTRAP_SERVERS.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func dottedFlags(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if keyNamed(name) != nil {
		name = flagName(name)
	}
	return pflag.NormalizedName(name)
}

func firstSentence(doc string) string {
	s, _, _ := strings.Cut(doc, ". ")
	return strings.TrimSuffix(s, ".")
}

// configPath is the file named by the flag or the variable; empty means no file.
func (c *cli) configPath(cmd *cobra.Command) string {
	if f := cmd.Flags().Lookup(configFlag); f != nil && f.Changed {
		return f.Value.String()
	}
	path, _ := c.lookupEnv(envFile)
	return path
}

// changedFlags are the keys given on the command line.
func changedFlags(cmd *cobra.Command) (map[string]setting, []error) {
	found := map[string]setting{}
	var problems []error
	for i := range keys {
		k := &keys[i]
		f := cmd.Flags().Lookup(flagName(k.name))
		if f == nil || !f.Changed {
			continue
		}
		e := setting{k, f.Value.String(), "--" + f.Name}
		if k.secret && e.raw != "" && !isOnlyReference(e.raw) {
			problems = append(problems, fmt.Errorf("%s: a secret on the command line can be read by every process of the machine; write --%s '${env:NAME}' or '${file:/path}'", k.name, f.Name))
			continue
		}
		found[k.name] = e
	}
	return found, problems
}

// environment are the keys given as PROCESSOR_*; any other name with that prefix is a mistake.
func (c *cli) environment() (map[string]setting, []error) {
	byName := map[string]string{}
	for _, name := range everyName() {
		byName[envName(name)] = name
	}
	found := map[string]setting{}
	var problems []error
	for _, kv := range c.environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envFile {
			continue
		}
		key, ok := byName[name]
		if !ok {
			problems = append(problems, unknownKey(name, "environment", slices.Collect(maps.Keys(byName))))
			continue
		}
		problems = append(problems, accept(found, key, value, name)...)
	}
	return found, problems
}

// accept files one value under its key, or says why the key has no effect here.
func accept(found map[string]setting, name, value, place string) []error {
	if k := keyNamed(name); k != nil {
		found[name] = setting{k, value, place}
		return nil
	}
	for _, f := range fixedKeys {
		if f.name == name && f.only != value {
			return []error{fmt.Errorf("%s: %q (%s): %s; allowed: %s; remove the key", name, value, place, f.reason, f.only)}
		}
	}
	for _, r := range refusedKeys {
		if r.name == name {
			return []error{fmt.Errorf("%s (%s): %s; remove the key", name, place, r.reason)}
		}
	}
	return nil
}

// everyName are all names that are known, accepted or refused.
func everyName() []string {
	var all []string
	for i := range keys {
		all = append(all, keys[i].name)
	}
	for _, f := range fixedKeys {
		all = append(all, f.name)
	}
	for _, r := range refusedKeys {
		all = append(all, r.name)
	}
	return all
}

func unknownKey(name, place string, known []string) error {
	if near := nearest(name, known); near != "" {
		return fmt.Errorf("%s (%s): unknown key; did you mean %s?", name, place, near)
	}
	return fmt.Errorf("%s (%s): unknown key; remove it", name, place)
}

// nearest is the known name that needs the fewest changes, if they are few.
func nearest(name string, known []string) string {
	best, distance := "", min(4, len(name)/3+1)
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := edits(strings.ToLower(name), strings.ToLower(k)); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	line := make([]int, len(b)+1)
	for j := range line {
		line[j] = j
	}
	for i := range len(a) {
		diagonal := line[0]
		line[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = line[j+1]
			line[j+1] = min(change, line[j]+1, line[j+1]+1)
		}
	}
	return line[len(b)]
}

// lookupEnv reads the environment that the command was started with.
func (c *cli) lookupEnv(name string) (string, bool) {
	for _, kv := range slices.Backward(c.environ) {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v, true
		}
	}
	return "", false
}

func (c *cli) getenv(name string) string {
	v, _ := c.lookupEnv(name)
	return v
}
