package pipeline

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/tallystick/tallystick/state"
	"github.com/tallystick/tallystick/topics"
)

// Pipeline is an application. Declare it completely, then hand it to NewProcessor or Run; it is read-only from then on and
// may be shared.
type Pipeline struct {
	app    string
	stages []*Stage
	errs   []error
	nodes  int // numbered so far, for Describe
}

// New returns an empty pipeline. app is the application.id: consumer group, prefix of topics and transactional ids. New does
// no I/O; a bad id is reported by Validate.
func New(app string) *Pipeline {
	p := &Pipeline{app: app}
	p.checkName("application.id", app)
	return p
}

// App returns the application.id.
func (p *Pipeline) App() string { return p.app }

// Stages returns the stages in the order of their declaration. The slice is the caller's, the stages are not.
func (p *Pipeline) Stages() []*Stage { return slices.Clone(p.stages) }

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (p *Pipeline) checkName(what, name string) {
	if !nameRule.MatchString(name) {
		p.errs = append(p.errs, fmt.Errorf("%s %q: use 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit", what, name))
	}
}

// Stage declares a stage. name becomes part of its state topic, for ever.
func (p *Pipeline) Stage(name string) *Stage {
	p.checkName("stage", name)
	for _, s := range p.stages {
		if s.name == name {
			p.errs = append(p.errs, fmt.Errorf("stage %q is declared twice: give each its own name", name))
		}
	}
	s := &Stage{p: p, name: name, partitioner: Murmur2}
	p.stages = append(p.stages, s)
	return s
}

// Validate reports every mistake of the declaration at once, each with its remedy.
func (p *Pipeline) Validate() error {
	errs := slices.Clone(p.errs)
	if len(p.stages) == 0 {
		errs = append(errs, errors.New("pipeline has no stage: declare one with Stage and Handle"))
	}
	owner, placed := map[string]string{}, map[string]Partitioner{}
	for _, s := range p.stages {
		errs = append(errs, s.validate(owner)...)
		for _, out := range s.outputs {
			if other, written := placed[out]; written && other != s.partitioner && p.repartitioned(out) == nil {
				errs = append(errs, fmt.Errorf("topic %q is written with partitioner %s and, by stage %q, with %s: use one", out, other, s.name, s.partitioner))
			}
			placed[out] = s.partitioner
		}
	}
	return errors.Join(append(errs, p.validateRepartitions()...)...)
}

// place returns the partition of an output's key: by the partitioner of the stage that writes the topic, or that reads it if it
// is a repartition topic.
func (p *Pipeline) place(topic string, key []byte, partitions int) int {
	if s := p.repartitioned(topic); s != nil {
		return int(s.partitioner.Partition(key, int32(partitions)))
	}
	for _, s := range p.stages {
		if slices.Contains(s.outputs, topic) {
			return int(s.partitioner.Partition(key, int32(partitions)))
		}
	}
	return int(Murmur2.Partition(key, int32(partitions)))
}

// Stage is a set of co-partitioned inputs and the stores they share.
type Stage struct {
	p           *Pipeline
	name        string
	specs       []*state.Spec
	inputs      []input
	outputs     []string
	nodes       []*node // for Describe
	compacted   []string
	timers      []timer
	repartition string // the topic through which other stages feed this one, "" without one
	onError     Policy
	partitioner Partitioner
}

type input struct {
	topic  string
	handle func(c *Ctx, in *Input) error
}

// Name returns the stage's name.
func (s *Stage) Name() string { return s.name }

// Pipeline returns the pipeline that the stage belongs to.
func (s *Stage) Pipeline() *Pipeline { return s.p }

// Inputs returns the names of the stage's input topics in the order of declaration.
func (s *Stage) Inputs() []string {
	names := make([]string, len(s.inputs))
	for i, in := range s.inputs {
		names[i] = in.topic
	}
	return names
}

// input returns the place of an input of the stage, by order of declaration. It panics on another topic: a worker hands a
// task only what it has subscribed for it.
func (s *Stage) input(topic string) int {
	for i := range s.inputs {
		if s.inputs[i].topic == topic {
			return i
		}
	}
	panic(fmt.Sprintf("stage %q has no input %q", s.name, topic))
}

// Outputs returns the names of the topics that the stage may write, without state and dead letters.
func (s *Stage) Outputs() []string { return slices.Clone(s.outputs) }

// Stores returns what is declared about each store. The specs are the engine's: do not change them.
func (s *Stage) Stores() []*state.Spec { return slices.Clone(s.specs) }

// StateTopic returns the name of the compacted topic that holds all stores of the stage and its applied markers.
func (s *Stage) StateTopic() string { return topics.StateTopic(s.p.app, s.name) }

// Fingerprint returns the frozen text that describes the stage for a number of partitions.
func (s *Stage) Fingerprint(partitions int32) string {
	text := state.FingerprintText(s.name, partitions, s.Inputs(), s.specs)
	if s.repartition == "" {
		return text
	}
	return state.WithPartitioner(text, string(s.partitioner))
}

// DeclareStore adds a store; state.NewTable and state.NewDedupe call it. It makes *Stage a state.Declarer.
func (s *Stage) DeclareStore(spec state.Spec) *state.Spec {
	if err := spec.Validate(); err != nil {
		s.p.errs = append(s.p.errs, fmt.Errorf("stage %q: %w", s.name, err))
	}
	for _, other := range s.specs {
		if other.Name == spec.Name {
			s.p.errs = append(s.p.errs, fmt.Errorf("stage %q: store %q is declared twice: give each its own name", s.name, spec.Name))
		}
	}
	spec.Index = len(s.specs)
	s.specs = append(s.specs, &spec)
	return &spec
}

// MayBeCompacted says of an input that only the last record of each key matters, as for a table: its topic may then be compacted,
// which is refused otherwise, and is made so.
func (s *Stage) MayBeCompacted(input string) { s.compacted = append(s.compacted, input) }

// OnError sets what happens when a handler returns an error that is no dead letter. The default is Fail.
func (s *Stage) OnError(policy Policy) { s.onError = policy }

// PartitionedBy names the partitioner with which the producers of the stage's inputs place keys. The default is Murmur2.
func (s *Stage) PartitionedBy(partitioner Partitioner) { s.partitioner = partitioner }

// Partitioner returns how keys of the stage's inputs are placed.
func (s *Stage) Partitioner() Partitioner { return s.partitioner }

func (s *Stage) validate(owner map[string]string) (errs []error) {
	if len(s.inputs) == 0 {
		errs = append(errs, fmt.Errorf("stage %q has no input: add one with Handle", s.name))
	}
	for _, in := range s.inputs {
		if other, taken := owner[in.topic]; taken && other == s.name {
			errs = append(errs, fmt.Errorf("topic %q is handled twice by stage %q: call one handler for it", in.topic, s.name))
		} else if taken {
			errs = append(errs, fmt.Errorf("topic %q is an input of stage %q and of stage %q: one stage owns an input", in.topic, other, s.name))
		}
		owner[in.topic] = s.name
	}
	return errs
}
