package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

// checkGone refuses to start without a stage that other stages fed, as long as its repartition topic exists: what is on its way
// would be read by nobody, and its state left behind, also when the stage just has another name. (A stage of another name that
// reads other topics meets their offsets without state, I1.)
func (p *Processor) checkGone(ctx context.Context) error {
	read, err := session.CommittedTopics(ctx, p.admin, p.pipe.app) // it tells "ledger" from "ledger-eu", whose topics begin alike
	if err != nil {
		return err
	}
	for _, stage := range p.pipe.goneStages(read) {
		topic := topics.Repartition(p.pipe.app, stage)
		have, err := topics.NewAdmin(p.admin).Describe(ctx, topic)
		if err != nil {
			return err
		}
		if len(have) > 0 {
			return fmt.Errorf("stage %q, which other stages fed, is gone or has another name: what is on its way to it and its state would be left behind: revert the change; or, to give both up, delete the topics %q and %q; or choose a new application.id",
				stage, topic, topics.StateTopic(p.pipe.app, stage))
		}
	}
	return nil
}

// goneStages returns the stages whose repartition topic is among those that the application has read, and that it does not have.
func (p *Pipeline) goneStages(read []string) (gone []string) {
	for _, topic := range read {
		stage, ours := topics.RepartitionOf(p.app, topic)
		if ours && !slices.ContainsFunc(p.stages, func(s *Stage) bool { return s.name == stage }) {
			gone = append(gone, stage)
		}
	}
	return gone
}
