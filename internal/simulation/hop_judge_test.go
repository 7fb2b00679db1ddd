//go:build synctests

package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tallystick/tallystick/record"
)

// pageHistory is what the outputs of one page tell, in the order in which they were committed.
type pageHistory struct {
	count, open int64
	latest      time.Time // of the visits since the page was closed last
	closed      time.Time
}

// hopJudge reads what the job has left and holds it against what was fed. It shares nothing with the job but the words of its
// outputs.
type hopJudge struct {
	verdicts
	pages  map[string]*pageHistory
	visits map[visit]int64
}

func judgeHops(w *world, ctx context.Context) []string {
	j := &hopJudge{newVerdicts(w), map[string]*pageHistory{}, map[visit]int64{}}
	for _, r := range w.committed(ctx, pagesTopic) {
		j.output(string(r.Key), string(r.Value), r.Timestamp)
	}
	source := w.feeder.source.(*hopSource)
	if n := int64(len(w.committed(ctx, deadTopic))); n != source.bad {
		j.say("dead", "%d dead letters, %d were fed", n, source.bad)
	}
	for v, want := range source.books {
		if got := j.visits[v]; got < want {
			j.say("lost", "%v: %d of %d visits came", v, got, want)
		}
	}
	j.state(ctx)
	j.trimmed(ctx)
	return j.names()
}

func (j *hopJudge) page(name string) *pageHistory {
	if j.pages[name] == nil {
		j.pages[name] = &pageHistory{}
	}
	return j.pages[name]
}

func (j *hopJudge) output(page, value string, at time.Time) {
	var count int64
	var user, number string
	if _, err := fmt.Sscanf(value, "visit %d %s %s", &count, &user, &number); err == nil {
		j.visit(visit{user, page}, count, number, at)
	} else if _, err := fmt.Sscanf(value, "closed %d", &count); err == nil {
		j.close(page, count, at)
	} else {
		j.say("ghost", "%s has %q", page, value)
	}
}

// visit follows one page and one user: the count grows by one, and the numbers of a user's visits come in order, once.
func (j *hopJudge) visit(v visit, count int64, number string, at time.Time) {
	n, err := strconv.ParseInt(number, 10, 64)
	switch was := j.visits[v]; {
	case err != nil, n >= ghostNumber:
		j.say("ghost", "%v has number %q", v, number)
	case n <= was:
		j.say("duplicate", "%v has number %d after %d", v, n, was)
	case n > was+1:
		j.say("lost", "%v has number %d after %d", v, n, was)
	}
	j.visits[v] = max(j.visits[v], n)
	p := j.page(v.page)
	if count != p.count+1 {
		j.say("chain", "%s counts %d after %d", v.page, count, p.count)
	}
	p.count, p.open = count, p.open+1
	if at.After(p.latest) {
		p.latest = at
	}
}

// close is a timer's call for a page: it closes all visits since the last one, each older than its boundary.
func (j *hopJudge) close(page string, n int64, at time.Time) {
	p := j.page(page)
	switch {
	case n != p.open:
		j.say("timer", "%s is closed at %s with %d visits, there were %d", page, at, n, p.open)
	case at.UnixMilli()%closeEvery.Milliseconds() != 0:
		j.say("timer", "%s is closed at %s, which is no boundary", page, at)
	case !at.After(p.closed):
		j.say("timer", "%s is closed at %s after %s", page, at, p.closed)
	case !p.latest.Before(at):
		j.say("timer", "%s is closed at %s with a visit at %s", page, at, p.latest)
	}
	p.open, p.latest, p.closed = 0, time.Time{}, at
}

// state holds the last value of each row in the state topic against the outputs.
func (j *hopJudge) state(ctx context.Context) {
	rows := map[string]int64{}
	for _, r := range j.w.committed(ctx, hopState) {
		n := int(r.Key[0])
		if n == 0 {
			continue
		}
		row := string(r.Key[1:1+n]) + " " + string(r.Key[1+n:])
		delete(rows, row)
		if r.Value != nil {
			value, err := record.Int64.Decode(r.Value)
			if err != nil {
				j.say("state", "%s: %v", row, err)
			}
			rows[row] = value
		}
	}
	for page, p := range j.pages {
		if got := rows["count "+page]; got != p.count {
			j.say("state", "%s counts %d in the state, %d in its outputs", page, got, p.count)
		}
		if got := rows["open "+page]; got != p.open {
			j.say("state", "%s has %d open visits in the state, %d in its outputs", page, got, p.open)
		}
	}
}

// trimmed sees to it that the repartition topic lost nothing that was not committed, and did lose what was.
func (j *hopJudge) trimmed(ctx context.Context) {
	adm := kadm.NewClient(j.w.admin)
	starts, err := adm.ListStartOffsets(ctx, hopTopic)
	if err != nil {
		j.w.fail("start of %s: %v", hopTopic, err)
		return
	}
	offsets, err := adm.FetchOffsets(ctx, app)
	if err != nil {
		j.w.fail("offsets: %v", err)
		return
	}
	trimmed := false
	starts.Each(func(start kadm.ListedOffset) {
		committed, _ := offsets.Lookup(hopTopic, start.Partition)
		if trimmed = trimmed || start.Offset > 0; start.Offset > max(0, committed.At) {
			j.say("purge", "%s/%d begins at %d, committed is %d", hopTopic, start.Partition, start.Offset, committed.At)
		}
	})
	if !trimmed {
		j.say("purge", "nothing of %s was trimmed", hopTopic)
	}
}
