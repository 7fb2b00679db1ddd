package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Verdict names what a violation breaks.
type Verdict string

// The verdicts.
const (
	Lost         Verdict = "lost"          // an input without its outcome, or a new event that was not posted
	Duplicate    Verdict = "duplicate"     // two outcomes of one input, or an id posted again in its partition
	Ghost        Verdict = "ghost"         // an outcome that its input does not explain
	Chain        Verdict = "chain"         // an update that does not follow from the account's previous one (L1)
	State        Verdict = "state"         // the state topic at its marker differs from what the outcomes say (L4), or from its digest
	Offset       Verdict = "offset"        // committed offset, marker and visible outcomes disagree (L5)
	Money        Verdict = "money"         // per currency, balances differ from posted credits − debits (L3)
	DoubleCredit Verdict = "double-credit" // one id applied in two partitions (L2)
	AbortedRead  Verdict = "aborted-read"  // raw mode: what was committed builds on what was aborted, or readers were shown it
	Torn         Verdict = "torn"          // raw mode: one transaction that is committed in part
	Flicker      Verdict = "flicker"       // raw mode: a committed record changed, came or went between two readings
	Liveness     Verdict = "liveness"      // on request: the job runs and its inputs wait for longer than the bound
)

// Verdicts lists what an audit can find: always, in raw mode, and on request.
func Verdicts(raw, liveness bool) []Verdict {
	v := []Verdict{Lost, Duplicate, Ghost, Chain, State, Offset, Money, DoubleCredit}
	if raw {
		v = append(v, AbortedRead, Torn, Flicker)
	}
	if liveness {
		v = append(v, Liveness)
	}
	return v
}

// Raw counts what raw mode saw in the logs, control records and aborted transactions included.
type Raw struct {
	Records   int64 `json:"records"` // control records too
	Controls  int64 `json:"control_records"`
	Committed int64 `json:"committed"` // transactions, counted in each partition that they wrote to
	Aborted   int64 `json:"aborted"`
	Open      int64 `json:"open"`
}

// Report is what an audit found. Counts are of judged inputs: those below the cut of their partition.
type Report struct {
	App              string            `json:"app"`
	Partitions       int               `json:"partitions"`
	Inputs           int64             `json:"inputs"`
	Applied          int64             `json:"applied"`
	Rejected         map[string]int64  `json:"rejected"`     // by reason
	Duplicates       int64             `json:"duplicates"`   // skipped
	DeadLetters      map[string]int64  `json:"dead_letters"` // by reason
	Accounts         int64             `json:"accounts"`
	Sums             map[string]Sum    `json:"sums"`               // by currency
	AppliedAgain     int64             `json:"applied_again"`      // ids posted again because their window had passed
	MendedLetters    int64             `json:"mended_letters"`     // dead letters that today's rules would not write, redriven since and settled
	NotYetProcessed  int64             `json:"not_yet_processed"`  // inputs behind the cut
	Records          int64             `json:"records"`            // read in all
	Baseline         *BaselineInfo     `json:"baseline,omitempty"` // nil when the whole history was judged
	OpenTransactions []OpenTransaction `json:"open_transactions,omitempty"`
	Violations       []Violation       `json:"violations"`         // the first MaxShown of each verdict in each partition
	Counts           map[Verdict]int64 `json:"violation_counts"`   // all of them
	Armed            []Verdict         `json:"verdicts"`           // that were looked for
	Raw              *Raw              `json:"raw,omitempty"`      // nil unless in raw mode
	Alive            *Alive            `json:"liveness,omitempty"` // nil unless asked for
	Took             time.Duration     `json:"took_ns"`
}

// OK reports whether no violation was found. It says nothing about what could not be judged: see Run's error.
func (r *Report) OK() bool { return len(r.Counts) == 0 }

// MaxShown is how many violations of one verdict are kept with their evidence, per partition.
const MaxShown = 20

// Sum is the reconciliation of one currency, as decimal texts.
type Sum struct {
	Credits  string `json:"credits"`
	Debits   string `json:"debits"`
	Balances string `json:"balances"` // of all accounts, by their last updates: Credits − Debits
}

// OpenTransaction says that records below the end of a partition were still undecided when it was read. They are no part of
// the judged history.
type OpenTransaction struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Stable    int64  `json:"last_stable_offset"` // the first undecided record
	End       int64  `json:"end_offset"`
}

// Violation is one broken promise with the records that prove it.
type Violation struct {
	Verdict   Verdict    `json:"verdict"`
	Partition int32      `json:"partition"` // -1 when it is of all
	Text      string     `json:"text"`
	Evidence  []Evidence `json:"evidence"`
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Verdict, v.Text)
	for _, e := range v.Evidence {
		fmt.Fprintf(&b, "\n    %s", e)
	}
	return b.String()
}

// Evidence is a record as it stands in its topic, made printable.
type Evidence struct {
	Role      string    `json:"role"` // what it is in this case: input, update, marker …
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Key       *string   `json:"key"` // null stays null; bytes that are no text are quoted, with escapes
	Value     *string   `json:"value"`
	Headers   []string  `json:"headers,omitempty"`  // name=value
	Producer  string    `json:"producer,omitempty"` // raw mode: producer id/epoch
	Control   string    `json:"control,omitempty"`  // raw mode: committed or aborted, of a control record
}

func (e Evidence) String() string {
	s := fmt.Sprintf("%s %s/%d/%d %s key=%s value=%s", e.Role, e.Topic, e.Partition, e.Offset,
		e.Time.UTC().Format(time.RFC3339Nano), orNull(e.Key), orNull(e.Value))
	for _, h := range e.Headers {
		s += " " + h
	}
	if e.Producer != "" {
		s += " " + e.Producer
	}
	if e.Control != "" {
		s += " control=" + e.Control
	}
	return s
}

func orNull(s *string) string {
	if s == nil {
		return "<null>"
	}
	return *s
}

// evidence copies a record: what it points to may be reused.
func evidence(role string, r *kgo.Record) Evidence {
	e := Evidence{Role: role, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Time: r.Timestamp.UTC()}
	e.Key, e.Value = printable(r.Key), printable(r.Value)
	for _, h := range r.Headers {
		value := "<null>"
		if p := printable(h.Value); p != nil {
			value = *p
		}
		e.Headers = append(e.Headers, h.Key+"="+value)
	}
	return e
}

const maxEvidence = 4096 // bytes of a key or value

func printable(b []byte) *string {
	if b == nil {
		return nil
	}
	rest := ""
	if len(b) > maxEvidence {
		b, rest = b[:maxEvidence], fmt.Sprintf("… (%d bytes)", len(b))
	}
	s := string(b)
	if !utf8.Valid(b) || strings.ContainsFunc(s, invisible) {
		s = fmt.Sprintf("%+q", s)
	}
	s += rest
	return &s
}

// merge adds what one partition found.
func (r *Report) merge(p *partitionReport) {
	r.Inputs += p.inputs
	r.Applied += p.applied
	r.Duplicates += p.duplicates
	r.Accounts += p.accounts
	r.MendedLetters += p.mended
	r.NotYetProcessed += p.notYet
	r.Records += p.records
	if r.Raw != nil {
		r.Raw.add(&p.raw)
	}
	addCounts(r.Rejected, p.rejected)
	addCounts(r.DeadLetters, p.letters)
	r.OpenTransactions = append(r.OpenTransactions, p.open...)
	r.Violations = append(r.Violations, p.violations...)
	for v, n := range p.counts {
		r.Counts[v] += n
	}
}

func (r *Raw) add(o *Raw) {
	r.Records += o.Records
	r.Controls += o.Controls
	r.Committed += o.Committed
	r.Aborted += o.Aborted
	r.Open += o.Open
}

func addCounts(into map[string]int64, from [reasonCount]int64) {
	for i, n := range from {
		if n > 0 {
			into[reason(i).String()] += n
		}
	}
}

// add records a violation of all partitions together.
func (r *Report) add(v Violation) {
	r.Counts[v.Verdict]++
	r.Violations = append(r.Violations, v)
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { // those of all partitions, -1, come last
		return cmp.Compare(uint32(a.Partition), uint32(b.Partition))
	})
	slices.SortFunc(r.OpenTransactions, func(a, b OpenTransaction) int {
		if a.Topic != b.Topic {
			return strings.Compare(a.Topic, b.Topic)
		}
		return int(a.Partition) - int(b.Partition)
	})
}

// partitionReport is what the audit of one partition found.
type partitionReport struct {
	inputs, applied, duplicates, accounts, mended, notYet, records int64
	rejected, letters                                              [reasonCount]int64
	open                                                           []OpenTransaction
	violations                                                     []Violation
	counts                                                         map[Verdict]int64
	sums                                                           map[currency]*tally
	posted                                                         []posting // not handed on yet
	raw                                                            Raw
	fates                                                          fates
	drifts                                                         map[currency][]Evidence // for money
}
