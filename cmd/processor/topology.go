package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/state"
)

func newTopology(c *cli) *cobra.Command {
	var partitions int32
	cmd := &cobra.Command{
		Use:   "topology",
		Short: "Print what the job consists of: steps, stores, topics and the fingerprint of its state",
		Long: "topology prints the job as this binary and this configuration declare it, without a broker: the steps in Kafka Streams' words, the stores\n" +
			"with their codecs and windows, the topics with what they are used for, and for each stage the fingerprint that every transaction writes\n" +
			"beside the state. A processor refuses state whose fingerprint its own does not extend: compare two releases with diff before a deployment.",
		Example: "  processor topology\n  processor topology -o json | jq -r '.stages[].fingerprint'\n  diff <(old-processor topology) <(processor topology)",
	}
	configFlags(cmd, groupApplication)
	keyFlags(cmd, "dedupe.window", "partitioner", "accounts.auto_create")
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "partitions of the inputs, for the fingerprint; 0: left open, as ?")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := c.config(cmd)
		if err != nil {
			return err
		}
		if partitions < 0 {
			return usageErrorf("--partitions %d: give 1 or more, or 0 to leave it open", partitions)
		}
		job := cfg.job()
		if err := job.Validate(); err != nil {
			return fail(exitUsage, err, "processor config show tells where each value comes from")
		}
		t := newTopologyView(job, partitions)
		return printOne(c, t, t.String())
	}
	return cmd
}

// topologyView is the job as declared.
type topologyView struct {
	App      string          `json:"app"`
	Describe string          `json:"describe"` // Kafka Streams' TopologyDescription
	Stages   []topologyStage `json:"stages"`
	Topics   []topologyTopic `json:"topics"`
}

type topologyStage struct {
	Stage       string          `json:"stage"`
	Partitioner string          `json:"partitioner"`
	Inputs      []string        `json:"inputs"`
	Outputs     []string        `json:"outputs"`
	StateTopic  string          `json:"state_topic"`
	Stores      []topologyStore `json:"stores"`
	Fingerprint string          `json:"fingerprint"` // what each marker holds; partitions=? when they were left open
}

type topologyStore struct {
	Store      string `json:"store"`
	Kind       string `json:"kind"`
	KeyCodec   string `json:"key_codec,omitempty"`
	ValueCodec string `json:"value_codec,omitempty"`
	Window     string `json:"window,omitempty"`
}

type topologyTopic struct {
	Topic  string   `json:"topic"`
	Roles  []string `json:"roles"`
	Stages []string `json:"stages"`
}

func newTopologyView(p *pipeline.Pipeline, partitions int32) topologyView {
	t := topologyView{App: p.App(), Describe: p.Describe(), Stages: []topologyStage{}, Topics: topologyTopics(p)}
	for _, s := range p.Stages() {
		t.Stages = append(t.Stages, newTopologyStage(s, partitions))
	}
	return t
}

func newTopologyStage(s *pipeline.Stage, partitions int32) topologyStage {
	v := topologyStage{Stage: s.Name(), Partitioner: string(s.Partitioner()), Inputs: s.Inputs(), Outputs: append([]string{}, s.Outputs()...),
		StateTopic: s.StateTopic(), Stores: []topologyStore{}, Fingerprint: s.Fingerprint(partitions)}
	if partitions == 0 {
		v.Fingerprint = strings.Replace(v.Fingerprint, " partitions=0 ", " partitions=? ", 1)
	}
	for _, spec := range s.Stores() {
		store := topologyStore{Store: spec.Name, Kind: string(spec.Kind), KeyCodec: spec.KeyCodec, ValueCodec: spec.ValueCodec}
		if spec.Kind == state.KindDedupe {
			store.Window = spec.Window.String()
		}
		v.Stores = append(v.Stores, store)
	}
	return v
}

// topologyTopics lists each topic once, in the order of first use.
func topologyTopics(p *pipeline.Pipeline) []topologyTopic {
	all := []topologyTopic{}
	for _, w := range p.Topics() {
		i := slices.IndexFunc(all, func(t topologyTopic) bool { return t.Topic == w.Name })
		if i < 0 {
			i = len(all)
			all = append(all, topologyTopic{Topic: w.Name})
		}
		all[i].Roles = withNew(all[i].Roles, string(w.Role))
		all[i].Stages = withNew(all[i].Stages, append(slices.Clone(w.Writers), w.Stage)...)
	}
	return all
}

// withNew appends those that are not there yet.
func withNew(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// String is the whole for people.
func (t topologyView) String() string {
	stores := [][]string{{"store", "stage", "kind", "key", "value", "window", "kept in"}}
	topics := [][]string{{"topic", "roles", "stages"}}
	var fingerprints strings.Builder
	for _, s := range t.Stages {
		for _, st := range s.Stores {
			stores = append(stores, []string{st.Store, s.Stage, st.Kind, dash(st.KeyCodec), dash(st.ValueCodec), dash(st.Window), s.StateTopic})
		}
		fingerprints.WriteString(s.Fingerprint)
	}
	for _, topic := range t.Topics {
		topics = append(topics, []string{topic.Topic, strings.Join(topic.Roles, ", "), strings.Join(topic.Stages, ", ")})
	}
	return strings.TrimRight(t.Describe, "\n ") + "\n\n" + aligned(stores) + "\n" + aligned(topics) + "\nfingerprint\n" + fingerprints.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// storeNames are the stores of a job, for completion.
func storeNames(p *pipeline.Pipeline) (names []string) {
	for _, s := range p.Stages() {
		for _, spec := range s.Stores() {
			names = append(names, spec.Name+"\t"+string(spec.Kind)+" of stage "+strconv.Quote(s.Name()))
		}
	}
	return names
}
