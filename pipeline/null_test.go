package pipeline_test

import (
	"testing"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

func TestAnEmptyOutputIsNullOnlyWhereTheCodecSaysSo(t *testing.T) {
	s := pipeline.New("app").Stage("pass")
	texts := topics.New("texts", record.String, record.Nullable(record.String))
	out := pipeline.NewOutput(s, texts)
	pipeline.Handle(s, numbers, func(c *pipeline.Ctx, r pipeline.Record[int64, int64]) error {
		out.Send(c, "", record.Some("")) // the first bytes of the transaction
		out.Send(c, "", record.Optional[string]{})
		return nil
	})
	outs := process(t, newTask(s, nil), number(0, 1, 2))
	if outs[0].Key == nil || outs[0].Value == nil || len(outs[0].Value) != 0 || outs[1].Value != nil {
		t.Errorf("sent %#v, want an empty value, then a null", outs)
	}
}
