package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/record"
	"github.com/tallystick/tallystick/topics"
)

func newDLQShow(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show <partition/offset>",
		Short: "Print one dead letter with all that it holds, and what to do",
		Long: "show prints key, value and headers byte for byte (null, \"\" and the text \"null\" look different), where the input stood and whether it is still\n" +
			"there, whether the letter was redriven, and what to do about its reason. For a conflict it fetches the first event of the id and names\n" +
			"the fields that differ.",
		Example: "  processor dlq show 3/17\n  processor dlq show 3/17 -o json | jq -r .value",
		Args:    exactlyOne("position"),
	}
	configFlags(cmd, groupConnection, groupApplication)
	cmd.RunE = c.connected(lookUpLimit, c.dlqShow)
	return cmd
}

// letterView is what dlq show prints.
type letterView struct {
	*deadLetter
	Key         json.RawMessage `json:"key"`
	Value       json.RawMessage `json:"value"`
	Headers     []tailHeaderOut `json:"headers"` // the input's own, in order
	InputThere  *bool           `json:"input_there,omitempty"`
	Differences []string        `json:"differences,omitempty"` // a conflict: from the first event of the id
	Advice      string          `json:"what_to_do"`
	rec         *kgo.Record
	inputNote   string
}

// tailHeaderOut is a header as tail -o jsonl writes it.
type tailHeaderOut struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

func (c *cli) dlqShow(ctx context.Context, cfg Config, client *kgo.Client, args []string) error {
	topic := topics.DeadLetters(cfg.ApplicationID)
	at, err := letterPositions(args, topic)
	if err != nil {
		return err
	}
	l, rec, err := findLetter(ctx, client, at[0])
	if err != nil {
		return noLetters(err, topic)
	}
	v := &letterView{deadLetter: l, rec: rec, Key: recordText(rec.Key).append(nil), Value: recordText(rec.Value).append(nil), Headers: []tailHeaderOut{}, Advice: adviceOf(l.Reason).text}
	for _, h := range rec.Headers {
		if !ownHeader(h.Key) {
			v.Headers = append(v.Headers, tailHeaderOut{h.Key, recordText(h.Value).append(nil)})
		}
	}
	v.lookAtInput(ctx, client)
	v.compareWithFirst(ctx, client)
	return printOne(c, v, v.text())
}

// findLetter reads the letter at a position, and its note if there is one.
func findLetter(ctx context.Context, client *kgo.Client, at record.Position) (*deadLetter, *kgo.Record, error) {
	book, found := newLetterBook(), (*kgo.Record)(nil)
	scan := &letterScan{client: client, topic: at.Topic, from: &at}
	err := scan.run(ctx, func(r *kgo.Record) error {
		if book.take(r, func(l *deadLetter) bool { return l.at == at }) != nil {
			found = r
		}
		return nil
	})
	book.close()
	switch {
	case err != nil:
		return nil, nil, err
	case found == nil:
		return nil, nil, fail(exitNotFound, fmt.Errorf("%s holds no dead letter", at), "processor dlq list --each shows the positions; what retention deleted is gone")
	}
	return book.letters[0], found, nil
}

// lookAtInput says whether the record that became the letter still stands in its topic.
func (v *letterView) lookAtInput(ctx context.Context, client *kgo.Client) {
	if v.unplaced != nil {
		v.inputNote = "the headers name no position"
		return
	}
	in, err := recordAt(ctx, client, v.source)
	there := in != nil
	switch {
	case err != nil:
		v.inputNote = "could not be read: " + err.Error()
		return
	case !there:
		v.inputNote = "not there any more"
	default:
		v.inputNote = "still there"
		if v.Time == nil {
			v.stamp(in.Timestamp)
		}
	}
	v.InputThere = &there
}

// compareWithFirst names the fields in which a conflicting event differs from the first one of its id.
func (v *letterView) compareWithFirst(ctx context.Context, client *kgo.Client) {
	if v.First == "" {
		return
	}
	at, err := parsePosition(v.First, "")
	if err != nil {
		return
	}
	first, err := recordAt(ctx, client, at)
	switch {
	case err != nil:
		v.Differences = []string{"the first event could not be read: " + err.Error()}
	case first == nil:
		v.Differences = []string{"the first event is not there any more: see its update in ledger-updates"}
	default:
		v.Differences = differences(first.Value, v.rec.Value)
	}
}

// differences compares two JSON objects member by member, as text.
func differences(first, second []byte) []string {
	var a, b map[string]json.RawMessage
	if json.Unmarshal(first, &a) != nil || json.Unmarshal(second, &b) != nil {
		return []string{"one of them is no JSON object: compare the bytes"}
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(a[name], b[name]) {
			out = append(out, fmt.Sprintf("%s: first %s, this one %s", name, orAbsent(a[name]), orAbsent(b[name])))
		}
	}
	return out
}

func orAbsent(raw json.RawMessage) string {
	if raw == nil {
		return "absent"
	}
	return string(raw)
}

func (v *letterView) text() string {
	rows := [][]string{
		{"dead letter", v.at.String() + ", written " + v.Written.Format(time.RFC3339)},
		{"reason", shown([]byte(v.Reason)) + ", stage " + shown([]byte(v.Stage))},
		{"message", shown([]byte(v.Message))},
		{"input", v.Source + v.stamped() + ", " + v.inputNote},
	}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	if v.First != "" {
		add("first of this id", v.First)
	}
	for i, d := range v.Differences {
		add([]string{"differs in", ""}[min(i, 1)], d)
	}
	add("judged at", v.Clock)
	add("key", shown(v.rec.Key)+"  ("+sized(v.rec.Key)+")")
	if v.Dropped != "" {
		add("value", "too large for the dead letters, "+v.Dropped+": it is only in the input")
	} else {
		add("value", shown(v.rec.Value)+"  ("+sized(v.rec.Value)+")")
	}
	for i, h := range v.rec.Headers {
		if !ownHeader(h.Key) {
			add("header", fmt.Sprintf("%s=%s", shown([]byte(v.rec.Headers[i].Key)), shown(h.Value)))
		}
	}
	again := "no"
	if v.Redriven != nil {
		again = v.Redriven.String()
	}
	add("redriven", again)
	add("what to do", v.Advice)
	return aligned(rows)
}

func (v *letterView) stamped() string {
	if v.Time == nil {
		return ""
	}
	return ", stamped " + v.Time.Format(timestampLayout)
}

// noLetters says that the topic of the dead letters is not there.
func noLetters(err error, topic string) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) && strings.Contains(err.Error(), topic) {
		return fail(exitNotFound, fmt.Errorf("topic %s does not exist", topic), "is application.id right? processor topics apply creates the job's topics")
	}
	return err
}
