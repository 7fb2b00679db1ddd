package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tallystick/tallystick/internal/session"
	"github.com/tallystick/tallystick/topics"
)

// checkGone looks for stages that other stages fed and that the program does not have any more; their repartition topics tell. When
// there is a new such stage, it is refused as the old one under another name: it would begin with empty state, and nobody would read
// what is on its way to the old one. (A stage of another name that reads other topics meets their offsets without state, I1.)
// Else, as after a deploy that was rolled back, a warning says what waits for its return.
func (p *Processor) checkGone(ctx context.Context) error {
	read, err := p.topicsRead(ctx) // it tells "ledger" from "ledger-eu", whose topics begin alike
	if err != nil {
		return err
	}
	renamed := p.pipe.newStage(read)
	for _, stage := range p.pipe.goneStages(read) {
		hop, kept := topics.Repartition(p.pipe.app, stage), topics.StateTopic(p.pipe.app, stage)
		switch have, err := topics.NewAdmin(p.admin).Describe(ctx, hop); {
		case err != nil:
			return err
		case len(have) == 0: // it was given up
		case renamed != "":
			return fmt.Errorf("stage %q, which other stages fed, is gone, and stage %q is new: under another name it would begin without its state and without what is on its way to it: revert the change; or, if they are two stages, delete the topics %q and %q, which gives up what they hold; or choose a new application.id",
				stage, renamed, hop, kept)
		default:
			p.cfg.Logger.Warn("a stage that other stages fed is gone: what was on its way to it and its state wait until a release has it again, which then lacks what comes meanwhile; to give them up, delete the topics",
				"app", p.pipe.app, "stage", stage, "topics", []string{hop, kept})
		}
	}
	return nil
}

// newStage returns a stage that others feed and that the application never ran, "" if there is none.
func (p *Pipeline) newStage(read []string) string {
	for _, s := range p.stages {
		if s.repartition != "" && !slices.Contains(read, s.repartition) {
			return s.name
		}
	}
	return ""
}

// coordinatorPatience is how long a start waits for the group's coordinator, whose fail-over takes seconds, before it says so.
const coordinatorPatience = 10 * time.Second

// topicsRead returns the topics of which the application has committed offsets. It waits for a coordinator until ctx ends: one that
// is away ends no process.
func (p *Processor) topicsRead(ctx context.Context) ([]string, error) {
	for said := false; ; said = true {
		bounded, cancel := context.WithTimeout(ctx, coordinatorPatience)
		read, err := session.CommittedTopics(bounded, p.admin, p.pipe.app)
		late := bounded.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return read, err
		}
		if !said {
			p.cfg.Logger.Warn("the group's coordinator does not answer; trying again", "app", p.pipe.app, "wait", coordinatorPatience, "err", err)
		}
	}
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
