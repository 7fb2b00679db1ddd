package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/topics"
)

// grant is what one purpose needs on one resource: one entry of Kafka's access control lists for each operation. DESCRIBE
// is left out where READ, WRITE or DELETE imply it.
type grant struct {
	Purpose    string   `json:"purpose"`
	Type       string   `json:"resource_type"` // topic, group, transactional-id
	Name       string   `json:"name"`
	Pattern    string   `json:"pattern"` // literal or prefixed
	Operations []string `json:"operations"`
	Why        string   `json:"why"`
}

func (g grant) cells() []string {
	name := g.Name
	if g.Pattern == prefixed {
		name += "*"
	}
	return []string{g.Purpose, g.Type, name, strings.Join(g.Operations, ", "), g.Why}
}

const (
	literal, prefixed                   = "literal", "prefixed"
	onTopic, onGroup, onTxn             = "topic", "group", "transactional-id"
	opRead, opWrite, opCreate, opDelete = "READ", "WRITE", "CREATE", "DELETE"
	opDescribe, opDescribeConfigs       = "DESCRIBE", "DESCRIBE_CONFIGS"
)

// need is what a purpose does with the topics of a role, and which operations that takes.
type need struct {
	role topics.Role
	ops  []string
	why  string
}

// purpose is one way to use the job, with rights of its own: each may be another principal.
type purpose struct {
	name   string
	topics []need
	others func(app string) []grant
}

// purposes are the sections of acls, in the order in which people need them. A topic of several roles needs all their
// operations.
var purposes = []purpose{
	{"run", []need{
		{topics.RoleInput, []string{opRead, opDescribeConfigs}, "read events; compare the settings at start"},
		{topics.RoleOutput, []string{opWrite, opDescribeConfigs}, "write outcomes; compare the settings at start"},
		{topics.RoleRepartition, []string{opRead, opWrite, opDelete, opDescribeConfigs}, "hand records on; DELETE trims what is committed"},
		{topics.RoleState, []string{opRead, opWrite, opDescribeConfigs}, "write state with each commit, read it back at a restore"},
		{topics.RoleDeadLetters, []string{opWrite, opDescribeConfigs}, "write what cannot be processed"},
	}, func(app string) []grant {
		return []grant{
			{Type: onGroup, Name: app, Pattern: literal, Operations: []string{opRead}, Why: "share the tasks out, commit offsets"},
			{Type: onTxn, Name: app + "-", Pattern: prefixed, Operations: []string{opWrite}, Why: "transactions; fence an earlier self"},
		}
	}},
	{"topics apply", everyRole([]string{opCreate, opDescribe, opDescribeConfigs}, "compare, and create what is missing"), nil},
	{"feed", []need{{topics.RoleInput, []string{opWrite, opDescribeConfigs}, "write events within the topic's limits"}}, nil},
	{"look", everyRole([]string{opRead}, "tail, verify, lag, dlq list, tx list"), func(app string) []grant {
		return []grant{
			{Type: onGroup, Name: app, Pattern: literal, Operations: []string{opDescribe}, Why: "committed offsets, members"},
			{Type: onTxn, Name: app + "-", Pattern: prefixed, Operations: []string{opDescribe}, Why: "who holds a partition back"},
		}
	}},
	{"dlq redrive", []need{
		{topics.RoleDeadLetters, []string{opRead, opWrite}, "read letters, note what was sent"},
		{topics.RoleInput, []string{opWrite, opDescribeConfigs}, "send letters to their input again"},
	}, func(app string) []grant {
		return []grant{{Type: onTxn, Name: redriveID(app), Pattern: literal, Operations: []string{opWrite}, Why: "letter and note in one transaction"}}
	}},
	{"reset apply", []need{
		{topics.RoleInput, []string{opRead, opDescribeConfigs}, "find and commit offsets"},
		{topics.RoleOutput, []string{opDescribe, opDescribeConfigs}, "compare the topics"},
		{topics.RoleRepartition, []string{opRead, opCreate, opDelete, opDescribeConfigs}, "replace it by an empty one"},
		{topics.RoleState, []string{opRead, opWrite, opCreate, opDelete, opDescribeConfigs}, "replace it by an empty one with fresh markers"},
		{topics.RoleDeadLetters, []string{opWrite, opDescribeConfigs}, "compare the topics; note what --skip-lost gives up"},
	}, func(app string) []grant {
		return []grant{
			{Type: onGroup, Name: app, Pattern: literal, Operations: []string{opRead}, Why: "commit offsets"},
			{Type: onTxn, Name: app + "-", Pattern: prefixed, Operations: []string{opWrite}, Why: "end open transactions"},
		}
	}},
	{"fence", nil, func(app string) []grant {
		return []grant{
			{Type: onGroup, Name: app, Pattern: literal, Operations: []string{opRead}, Why: "remove the members of an instance"},
			{Type: onTxn, Name: app + "-", Pattern: prefixed, Operations: []string{opWrite}, Why: "fence an instance's transactions"},
		}
	}},
}

func everyRole(ops []string, why string) []need {
	var all []need
	for _, r := range []topics.Role{topics.RoleInput, topics.RoleOutput, topics.RoleRepartition, topics.RoleState, topics.RoleDeadLetters} {
		all = append(all, need{r, ops, why})
	}
	return all
}

// grants are the least rights of a purpose for a job with these topics.
func (p purpose) grants(app string, wants []topics.Want) []grant {
	var all []grant
	for _, w := range wants {
		for _, n := range p.topics {
			if n.role == w.Role {
				all = merge(all, grant{p.name, onTopic, w.Name, literal, n.ops, n.why})
			}
		}
	}
	if p.others != nil {
		for _, g := range p.others(app) {
			g.Purpose = p.name
			all = append(all, g)
		}
	}
	return all
}

// merge adds a grant, to that of the same topic if there is one.
func merge(all []grant, g grant) []grant {
	i := slices.IndexFunc(all, func(o grant) bool { return o.Name == g.Name })
	if i < 0 {
		g.Operations = slices.Clone(g.Operations)
		return append(all, g)
	}
	for _, op := range g.Operations {
		if !slices.Contains(all[i].Operations, op) {
			all[i].Operations = append(all[i].Operations, op)
		}
	}
	if implied := slices.Contains(all[i].Operations, opRead) || slices.Contains(all[i].Operations, opWrite); implied {
		all[i].Operations = slices.DeleteFunc(all[i].Operations, func(op string) bool { return op == opDescribe })
	}
	if !strings.Contains(all[i].Why, g.Why) {
		all[i].Why += "; " + g.Why
	}
	return all
}

// aclFlags are the flags of acls.
type aclFlags struct {
	purposes        []string
	commands        bool
	principal, host string
}

func newACLs(c *cli) *cobra.Command {
	var f aclFlags
	cmd := &cobra.Command{
		Use:   "acls",
		Short: "Print the least rights of the job, by purpose",
		Long: "acls prints what each use of the job needs on topics, group and transactional ids, and nothing more: derived from the job itself, without asking\n" +
			"a broker. READ, WRITE and DELETE imply DESCRIBE. The purposes are " + strings.Join(purposeNames(), ", ") + ";\n" +
			"look is tail, verify, lag, dlq list and tx list. Each can be another principal. --commands prints lines for kafka-acls.sh instead.\n\n" +
			"The prefix of the transactional ids is that of another job too whose application.id begins with this one and a dash.",
		Example: "  processor acls --for run\n  processor acls --for run,look --commands --principal User:ledger > grant.sh",
	}
	configFlags(cmd, groupConnection, groupApplication)
	cmd.Flags().StringSliceVar(&f.purposes, "for", nil, "only these purposes, separated by commas")
	cmd.Flags().BoolVar(&f.commands, "commands", false, "print lines for kafka-acls.sh")
	cmd.Flags().StringVar(&f.principal, "principal", "User:CHANGE-ME", "with --commands: whom to grant the rights")
	cmd.Flags().StringVar(&f.host, "host", "*", "with --commands: the host that the principal comes from")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		return c.acls(cfg, f)
	}
	return cmd
}

func purposeNames() []string {
	var all []string
	for _, p := range purposes {
		all = append(all, p.name)
	}
	return all
}

func (c *cli) acls(cfg Config, f aclFlags) error {
	for _, name := range f.purposes {
		if !slices.Contains(purposeNames(), name) {
			return usageErrorf("--for %s: there is no such purpose; choose of %s", name, strings.Join(purposeNames(), ", "))
		}
	}
	if f.commands && c.format.orTable() != formatTable {
		return usageErrorf("--commands prints a script: leave out -o, or --commands")
	}
	var all []grant
	for _, p := range purposes {
		if len(f.purposes) == 0 || slices.Contains(f.purposes, p.name) {
			all = append(all, p.grants(cfg.ApplicationID, cfg.job().Topics())...)
		}
	}
	if f.commands {
		return writeLines(c.stdout, aclScript(all, cfg.BootstrapServers, f))
	}
	return printList(c, []string{"purpose", "resource", "name", "operations", "why"}, all, grant.cells)
}

// aclScript is one line of kafka-acls.sh for each grant. admin.properties is the connection of whoever may change rights.
func aclScript(all []grant, brokers []string, f aclFlags) string {
	var b strings.Builder
	last := ""
	for _, g := range all {
		if g.Purpose != last {
			fmt.Fprintf(&b, "# %s\n", g.Purpose)
			last = g.Purpose
		}
		fmt.Fprintf(&b, "kafka-acls.sh --bootstrap-server %s --command-config admin.properties --add --allow-principal %s --allow-host %s",
			quoted(strings.Join(brokers, ",")), quoted(f.principal), quoted(f.host))
		for _, op := range g.Operations {
			b.WriteString(" --operation " + shellOperation(op))
		}
		fmt.Fprintf(&b, " --%s %s --resource-pattern-type %s\n", g.Type, quoted(g.Name), g.Pattern)
	}
	return b.String()
}

// shellOperation spells DESCRIBE_CONFIGS as kafka-acls.sh does: DescribeConfigs.
func shellOperation(op string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(op, "_") {
		b.WriteString(part[:1] + strings.ToLower(part[1:]))
	}
	return b.String()
}

// quoted is a word that a shell takes as it is.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
