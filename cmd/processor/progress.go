package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progressEvery is how often progress is a line when stderr is no terminal.
const progressEvery = 5 * time.Second

// progress shows long work on stderr: a bar with rate and time left on a terminal, else one line every five seconds.
// add may be called from any goroutine; done once, after the last add.
type progress struct {
	what  string
	total atomic.Int64 // 0: unknown
	count atomic.Int64
	start time.Time
	bars  *mpb.Progress
	bar   *mpb.Bar
	stop  chan struct{}
	ended chan struct{}
}

// newProgress starts showing. total is in the unit that add counts; 0 means that the end is not known.
func newProgress(c *cli, what string, total int64) *progress {
	p := &progress{what: what, start: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	p.total.Store(total)
	if isTerminal(c.stderr) {
		p.bars, p.bar = newBar(c.stderr, what, total)
		close(p.ended)
		return p
	}
	go p.lines(c.stderr)
	return p
}

func newBar(w io.Writer, what string, total int64) (*mpb.Progress, *mpb.Bar) {
	bars := mpb.New(mpb.WithOutput(w))
	return bars, bars.AddBar(total,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Name(what+" "), decor.CountersNoUnit("%d/%d")),
		mpb.AppendDecorators(decor.AverageSpeed(0, "%.0f/s"), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
}

func (p *progress) add(n int) {
	p.count.Add(int64(n))
	if p.bar != nil {
		p.bar.IncrBy(n)
	}
}

// set replaces what add has counted, and the total.
func (p *progress) set(done, total int64) {
	p.count.Store(done)
	p.total.Store(total)
	if p.bar != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(done)
	}
}

// done removes the bar or stops the lines; it returns when nothing more will be written.
func (p *progress) done() {
	close(p.stop)
	<-p.ended
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}

func (p *progress) lines(w io.Writer) {
	defer close(p.ended)
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			fmt.Fprintln(w, progressLine(p.what, p.count.Load(), p.total.Load(), time.Since(p.start)))
		}
	}
}

// progressLine is one line of text: how much, how fast, how long still.
func progressLine(what string, done, total int64, took time.Duration) string {
	rate := float64(done) / max(took.Seconds(), 0.001)
	if total <= 0 || rate == 0 {
		return fmt.Sprintf("%s %d, %.0f/s", what, done, rate)
	}
	left := time.Duration(float64(max(total-done, 0)) / rate * float64(time.Second))
	return fmt.Sprintf("%s %d of %d, %.0f/s, %s left", what, done, total, rate, left.Round(time.Second))
}
