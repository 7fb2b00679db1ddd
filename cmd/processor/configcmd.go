package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newConfig(c *cli) *cobra.Command {
	return group("config", "Write, explain and check the configuration", newConfigInit(c), newConfigShow(c), newConfigSchema(c))
}

func newConfigInit(c *cli) *cobra.Command {
	return withoutFormat(&cobra.Command{
		Use:     "init",
		Short:   "Print an annotated configuration file with every key and its default",
		Example: "  processor config init > processor.yaml",
		RunE:    func(*cobra.Command, []string) error { return writeLines(c.stdout, annotated()) },
	}, "it writes YAML; processor config schema and config show -o json are JSON")
}

// annotated is the manual: each key with its text, what is allowed, and its default, commented out.
func annotated() string {
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=" + schemaFile + "\n" +
		"# Configuration of processor. Every key is shown with its default; uncomment what you change.\n" +
		"# A flag (--bootstrap-servers) wins over the environment (PROCESSOR_BOOTSTRAP_SERVERS), that over this file.\n" +
		"# A value may refer to a secret kept elsewhere: ${env:NAME} or ${file:/run/secrets/name}.\n" +
		"# Unknown keys are errors. Check with: processor config show --config this-file\n" +
		"# Editors check it too, by the schema of the first line: processor config schema > " + schemaFile + "\n")
	last := keyGroup(0)
	for _, k := range keys {
		if k.group != last {
			fmt.Fprintf(&b, "\n# ---- %s ----\n", groupTitles[k.group])
			last = k.group
		}
		b.WriteString("\n" + wrap(k.doc, "# ", 100))
		if k.limit != "" {
			b.WriteString(wrap("Allowed: "+k.limit+".", "# ", 100))
		}
		fmt.Fprintf(&b, "#%s: %s\n", k.name, yamlScalar(k.def))
	}
	return b.String()
}

// yamlScalar writes a default so that it reads back as the same text.
func yamlScalar(s string) string {
	if s == "" || strings.ContainsAny(s, `#"'{}[]&*!|>%@`) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func wrap(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > width && line != prefix {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}

// shownSetting is one line of config show.
type shownSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func newConfigShow(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration and where each value comes from; secrets stay hidden",
	}
	configFlags(cmd, allGroups()...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := c.settings(cmd)
		if err != nil {
			return err
		}
		rows := make([]shownSetting, len(s.entries))
		for i, e := range s.entries {
			rows[i] = shownSetting{e.key.name, e.shown(), e.place}
		}
		err = printList(c, []string{"key", "value", "from"}, rows, func(r shownSetting) []string {
			return []string{r.Key, r.Value, r.From}
		})
		_, unusable := s.clientOptions(nil) // files that run would refuse
		return errors.Join(err, unusable)
	}
	return cmd
}

func newConfigSchema(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the configuration file, for editors and checks in CI",
		Long: "schema prints a JSON Schema (draft 2020-12) of the configuration file: types, values, ranges, defaults, and what each key means. Editors that\n" +
			"know the line \"yaml-language-server\" complete and check a file by it; config init writes that line.",
		Example: "  processor config schema > " + schemaFile,
		RunE:    func(*cobra.Command, []string) error { return writeJSON(c.stdout, schema(), "  ") },
	}
}
