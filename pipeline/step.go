package pipeline

import (
	"fmt"
	"slices"
)

// Step is a part of what a stage's handlers do, as Describe shows it. It is for packages that build handlers out of parts, as
// stream does: the engine runs handlers, and no step changes what they do.
type Step struct {
	// Kind is the first part of the step's name, in Kafka Streams' words ("KSTREAM-FILTER"); the pipeline's next number
	// follows. Unused when there is an Output.
	Kind string
	// After are the input topics of the stage, and the names of earlier steps, whose records the step takes.
	After []string
	// Stores are the names of the stage's stores that it uses.
	Stores []string
	// Output is the topic that the step writes, which NewOutput declared: then the step is a sink, and has no stores.
	Output string
}

// AddStep adds a step and returns its name. A name in After that is neither an input nor an earlier step is a mistake, which
// Validate reports.
func (s *Stage) AddStep(step Step) (name string) {
	n := s.stepNode(step)
	if n == nil {
		s.Refuse(fmt.Errorf("a step writes topic %q, which is no output of the stage: declare it with NewOutput", step.Output))
		return ""
	}
	for _, after := range step.After {
		if from := s.named(after); from == nil {
			s.Refuse(fmt.Errorf("step %s takes records of %q, which is no input and no earlier step of the stage: declare that first", n.name, after))
		} else if !slices.Contains(n.after, from) {
			n.after = append(n.after, from)
		}
	}
	return n.name
}

func (s *Stage) stepNode(step Step) *node {
	if step.Output != "" {
		return s.drawn(sinkNode, step.Output)
	}
	n := &node{kind: processorNode, name: s.p.nodeName(step.Kind), stores: slices.Sorted(slices.Values(step.Stores))}
	s.nodes = append(s.nodes, n)
	return n
}

// Refuse adds a mistake in how the stage was declared: Validate reports it. It is for packages that declare on behalf of users.
func (s *Stage) Refuse(err error) {
	s.p.errs = append(s.p.errs, fmt.Errorf("stage %q: %w", s.name, err))
}

// node is a line of the description: a source, a step, a sink, or all handlers of a stage together.
type node struct {
	kind   nodeKind
	name   string
	topic  string   // of a source or sink
	stores []string // of a processor
	after  []*node
}

type nodeKind uint8

const (
	sourceNode nodeKind = iota
	processorNode
	sinkNode
)

// nodeName numbers as Kafka Streams does: through the pipeline, in the order of declaration.
func (p *Pipeline) nodeName(kind string) string {
	name := fmt.Sprintf("%s-%010d", kind, p.nodes)
	p.nodes++
	return name
}

// draw adds the source of an input or the sink of an output, once for each topic.
func (s *Stage) draw(kind nodeKind, word, topic string) {
	if s.drawn(kind, topic) == nil {
		s.nodes = append(s.nodes, &node{kind: kind, name: s.p.nodeName(word), topic: topic})
	}
}

func (s *Stage) drawn(kind nodeKind, topic string) *node {
	for _, n := range s.nodes {
		if n.kind == kind && n.topic == topic {
			return n
		}
	}
	return nil
}

// named returns an input by its topic, or a step by its name.
func (s *Stage) named(name string) *node {
	if n := s.drawn(sourceNode, name); n != nil {
		return n
	}
	for _, n := range s.nodes {
		if n.kind == processorNode && n.name == name {
			return n
		}
	}
	return nil
}

// handlers is the one processor that stands for handlers without steps: it takes the inputs and writes the outputs that no step
// takes or writes, and may use every store. The second result is false when steps tell all.
func (s *Stage) handlers() (*node, bool) {
	h := &node{kind: processorNode, name: s.name}
	for _, spec := range s.specs {
		h.stores = append(h.stores, spec.Name)
	}
	slices.Sort(h.stores)
	for _, n := range s.nodes {
		if n.kind == sourceNode && !slices.ContainsFunc(s.nodes, func(to *node) bool { return slices.Contains(to.after, n) }) {
			h.after = append(h.after, n)
		}
	}
	return h, len(h.after) > 0
}
