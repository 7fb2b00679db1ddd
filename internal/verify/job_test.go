package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"
)

// in is an input of the simple job.
type in struct {
	id, kind, account string
	cents             int64
	currency          string // EUR when empty
	to                string
	minimum           int64
	at                int64  // record time, ms before testNow
	raw, reason       string // a value that is no event, and the reason
	key               string // account when empty
}

func (e in) time() int64 { return testNow - e.at }

func (e in) value() string {
	switch {
	case e.raw != "":
		return e.raw
	case e.kind == "account" && e.to == "open":
		return fmt.Sprintf(`{"event_id":%q,"type":"account","account_id":%q,"to":"open","currency":%q,"minimum":%q,"occurred_at":"2026-11-30T10:00:00Z"}`, e.id, e.account, e.code(), cents(e.minimum))
	case e.kind == "account":
		return fmt.Sprintf(`{"event_id":%q,"type":"account","account_id":%q,"to":%q,"occurred_at":"2026-11-30T10:00:00Z"}`, e.id, e.account, e.to)
	}
	return fmt.Sprintf(`{"event_id":%q,"type":%q,"account_id":%q,"amount":%q,"currency":%q,"occurred_at":"2026-11-30T10:00:00Z"}`, e.id, e.kind, e.account, cents(e.cents), e.code())
}

func (e in) code() string {
	if e.currency == "" {
		return "EUR"
	}
	return e.currency
}

func cents(n int64) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%02d", sign, n/100, n%100)
}

type jobAccount struct {
	currency         string
	balance, minimum int64
	status           string
	version          int64
}

type jobID struct {
	what   string
	offset int64
	bucket int64
}

// job is one task of the simple processor. It writes what a correct one writes.
type job struct {
	w          *world
	p          int32
	accounts   map[string]jobAccount
	ids        map[string]jobID
	streamTime int64
	autoCreate bool
	next       int64
	txn        uint64
	dirty      []string
	fresh      []string          // ids since the last commit
	state      map[string]string // live records of the state topic
}

// feed appends an input and processes it.
func (w *world) feed(p int32, events ...in) {
	for _, e := range events {
		r := w.send(p, e)
		w.jobs[p].process(e, r)
	}
}

func (w *world) send(p int32, e in) *kgo.Record {
	key := e.key
	if key == "" {
		key = e.account
	}
	return w.append(w.topics.Input, p, kgo.Record{Key: []byte(key), Value: []byte(e.value()), Timestamp: time.UnixMilli(e.time())})
}

func (j *job) process(e in, r *kgo.Record) {
	j.next = r.Offset + 1
	if e.reason != "" {
		j.deadLetter(r, e.reason)
		return
	}
	now := max(j.streamTime, e.time())
	horizon := now - testWindow.Milliseconds()
	known, seen := j.ids[e.id]
	switch {
	case seen && known.bucket > horizon && known.what == e.value():
		j.streamTime = now
		j.skip(e, r, known.offset)
	case seen && known.bucket > horizon:
		j.deadLetter(r, "conflict", kgo.RecordHeader{Key: "tallystick.first", Value: fmt.Appendf(nil, "%s/%d/%d", r.Topic, r.Partition, known.offset)})
	case e.time() < horizon:
		j.deadLetter(r, "outside_dedupe_window")
	default:
		j.streamTime = now
		j.ids[e.id] = jobID{e.value(), r.Offset, now/1000*1000 + 1000}
		j.fresh = append(j.fresh, e.id)
		j.post(e, r)
	}
}

func (j *job) post(e in, r *kgo.Record) {
	a := j.accounts[e.account]
	reason := j.refuse(a, e)
	if reason == "" {
		a = e.apply(a)
		j.accounts[e.account] = a
		j.dirty = append(j.dirty, e.account)
	}
	j.update(e, r, a, reason)
}

func (j *job) refuse(a jobAccount, e in) string {
	switch posting := e.kind != "account"; {
	case posting && e.cents <= 0:
		return "amount_not_positive"
	case a.status == "" && !(e.kind == "credit" && j.autoCreate) && e.to != "open":
		return "unknown_account"
	case a.status == "closed":
		return "account_closed"
	case e.kind == "debit" && a.status == "frozen":
		return "account_frozen"
	case a.status != "" && e.to == "open" && a.currency != e.code():
		return "account_exists"
	case a.status != "" && posting && a.currency != e.code():
		return "currency_mismatch"
	case e.to == "closed" && a.balance != 0:
		return "close_not_empty"
	case e.kind == "debit" && a.balance-e.cents < a.minimum:
		return "insufficient_funds"
	}
	return ""
}

func (e in) apply(a jobAccount) jobAccount {
	if a.status == "" {
		a = jobAccount{currency: e.code(), status: "open"}
	}
	switch e.kind {
	case "credit":
		a.balance += e.cents
		a.version++
	case "debit":
		a.balance -= e.cents
		a.version++
	default:
		a.status = e.to
		if e.to == "open" {
			a.minimum = e.minimum
		}
	}
	return a
}

func (j *job) update(e in, r *kgo.Record, a jobAccount, reason string) {
	v := fmt.Sprintf(`{"event_id":%q,"account_id":%q,"type":%q,"outcome":`, e.id, e.account, e.kind)
	if reason == "" {
		v += `"applied"`
	} else {
		v += fmt.Sprintf(`"rejected","reason":%q`, reason)
	}
	code := e.code()
	if e.kind != "account" {
		v += fmt.Sprintf(`,"amount":%q`, cents(e.cents))
	} else if e.to != "open" {
		code = a.currency
	}
	zero := a.status == "" && e.kind == "account"
	if code != "" {
		v += fmt.Sprintf(`,"currency":%q`, code)
	}
	if zero {
		v += `,"balance":"0","held":"0"`
	} else {
		v += fmt.Sprintf(`,"balance":%q,"held":"0.00"`, cents(a.balance))
	}
	if e.kind == "account" && a.status != "" {
		v += fmt.Sprintf(`,"minimum":%q,"status":%q`, cents(a.minimum), a.status)
	}
	v += fmt.Sprintf(`,"version":%d,"source":%s}`, a.version, source(r.Topic, r.Partition, r.Offset))
	j.w.append(j.w.topics.Updates, j.p, kgo.Record{Key: r.Key, Value: []byte(v), Timestamp: r.Timestamp})
}

func source(topic string, p int32, offset int64) string {
	return fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":%d}`, topic, p, offset)
}

func (j *job) skip(e in, r *kgo.Record, first int64) {
	v := fmt.Sprintf(`{"event_id":%q,"account_id":%q,"reason":"duplicate","first":%s,"source":%s}`, e.id, e.account,
		source(r.Topic, r.Partition, first), source(r.Topic, r.Partition, r.Offset))
	j.w.append(j.w.topics.Skipped, j.p, kgo.Record{Key: r.Key, Value: []byte(v), Timestamp: r.Timestamp})
}

func (j *job) deadLetter(r *kgo.Record, reason string, more ...kgo.RecordHeader) {
	h := slices.Clone(r.Headers)
	for _, kv := range [][2]string{
		{"__streams.errors.exception", reason}, {"__streams.errors.message", "why"}, {"__streams.errors.topic", r.Topic},
		{"__streams.errors.partition", fmt.Sprint(r.Partition)}, {"__streams.errors.offset", fmt.Sprint(r.Offset)},
		{"tallystick.reason", reason}, {"tallystick.stage", "post"},
	} {
		h = append(h, kgo.RecordHeader{Key: kv[0], Value: []byte(kv[1])})
	}
	j.w.append(j.w.topics.DeadLetters, j.p, kgo.Record{Key: r.Key, Value: r.Value, Headers: append(h, more...)})
}

// commit writes state and marker, and commits the offset.
func (j *job) commit() {
	j.txn++
	slices.Sort(j.dirty)
	for _, id := range slices.Compact(j.dirty) {
		a := j.accounts[id]
		j.put("\x08accounts"+id, fmt.Sprintf(`{"currency":%q,"balance":%q,"held":"0.00","minimum":%q,"status":%q,"version":%d}`,
			a.currency, cents(a.balance), cents(a.minimum), a.status, a.version))
	}
	j.putIDs()
	digest := j.digest()
	m := j.marker(digest)
	j.w.append(j.w.topics.State, j.p, kgo.Record{Key: []byte("\x00m"), Value: m})
	j.w.commits[j.p] = newCommit(j.next, fmt.Sprintf("tallystick/1 txn=%d digest=%016x", j.txn, digest))
	j.dirty, j.fresh = nil, nil
}

func (w *world) commit() *world {
	for _, j := range w.jobs {
		j.commit()
	}
	return w
}

func (j *job) put(key, value string) {
	j.state[key] = value
	j.w.append(j.w.topics.State, j.p, kgo.Record{Key: []byte(key), Value: []byte(value)})
}

func (j *job) putIDs() {
	buckets := map[int64][]string{}
	slices.Sort(j.fresh)
	for _, id := range slices.Compact(j.fresh) {
		buckets[j.ids[id].bucket] = append(buckets[j.ids[id].bucket], id)
	}
	for _, end := range slices.Sorted(maps.Keys(buckets)) {
		key := binary.BigEndian.AppendUint64([]byte("\x05inbox"), uint64(end)^1<<63)
		key = binary.BigEndian.AppendUint64(key, j.txn)
		v := append([]byte{1, byte(len(j.w.topics.Input))}, j.w.topics.Input...)
		v = binary.AppendUvarint(v, uint64(len(buckets[end])))
		for _, id := range buckets[end] {
			sum := sha256.Sum256([]byte(id))
			v = append(v, sum[:16]...)
			v = binary.BigEndian.AppendUint64(v, 4711) // a fingerprint that only the processor understands
			v = binary.BigEndian.AppendUint64(v, uint64(j.ids[id].offset))
		}
		j.put(string(key), string(v))
	}
}

func (j *job) digest() (d uint64) {
	for k, v := range j.state {
		b := binary.AppendUvarint(nil, uint64(len(k)))
		d += xxhash.Sum64(append(append(b, k...), v...))
	}
	return d
}

func (j *job) marker(digest uint64) []byte {
	b := binary.AppendUvarint([]byte{1}, j.txn)
	b = binary.AppendVarint(b, j.streamTime)
	b = binary.BigEndian.AppendUint64(b, digest)
	b = binary.AppendUvarint(b, uint64(j.w.partitions))
	b = append(b, 3, 'f', 'p', '\n', 6, 'b', '-', 'i', '-', '0', '1', 1, byte(len(j.w.topics.Input)))
	return binary.AppendUvarint(append(b, j.w.topics.Input...), uint64(j.next))
}
