package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Describe returns the topology in the text of Kafka Streams' Topology.describe(), to which its users' eyes and their tools are
// used. A sub-topology is a stage, by the order of declaration; a stage whose handlers are not made of steps has one processor, of its
// own name. Topics have the names that they have in the cluster. State topics and dead letters do not appear, as there. The
// text depends on the declaration alone.
func (p *Pipeline) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n ")
	for i, s := range p.stages {
		fmt.Fprintf(&b, "  Sub-topology: %d\n", i)
		for _, n := range s.describe() {
			n.write(&b)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// described is a node with what follows from all nodes of its stage.
type described struct {
	node
	before, next []*described
	size         int // of the graph that begins here, each path counted
}

// describe links the stage's nodes and puts them in Kafka Streams' order: the one with the most behind it first, then by name.
func (s *Stage) describe() []*described {
	of := map[*node]*described{}
	var all []*described
	add := func(n *node) {
		of[n] = &described{node: *n}
		all = append(all, of[n])
	}
	handlers, some := s.handlers()
	for _, n := range s.nodes {
		add(n)
		if some && n.kind == sinkNode && len(n.after) == 0 {
			of[n].after = []*node{handlers}
		}
	}
	if some {
		add(handlers)
	}
	for _, d := range all {
		for _, n := range d.after {
			d.before = append(d.before, of[n])
			of[n].next = append(of[n].next, d)
		}
	}
	for _, d := range all {
		d.measure()
	}
	sortNodes(all)
	for _, d := range all {
		sortNodes(d.before)
		sortNodes(d.next)
	}
	return all
}

// measure ends: a step comes after earlier ones only.
func (d *described) measure() int {
	if d.size == 0 {
		d.size = 1
		for _, n := range d.next {
			d.size += n.measure()
		}
	}
	return d.size
}

func sortNodes(nodes []*described) {
	slices.SortFunc(nodes, func(a, b *described) int {
		return cmp.Or(cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name))
	})
}

func (d *described) write(b *strings.Builder) {
	switch d.kind {
	case sourceNode:
		fmt.Fprintf(b, "    Source: %s (topics: [%s])\n      --> %s\n", d.name, d.topic, names(d.next))
	case sinkNode:
		fmt.Fprintf(b, "    Sink: %s (topic: %s)\n      <-- %s\n", d.name, d.topic, names(d.before))
	default:
		fmt.Fprintf(b, "    Processor: %s (stores: [%s])\n      --> %s\n      <-- %s\n",
			d.name, strings.Join(d.stores, ", "), names(d.next), names(d.before))
	}
}

func names(nodes []*described) string {
	if len(nodes) == 0 {
		return "none"
	}
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.name
	}
	return strings.Join(all, ", ")
}
