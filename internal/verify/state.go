package verify

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	storeAccounts = "accounts"
	storeInbox    = "inbox"
	packedSchema  = 1
	signBit       = 1 << 63
)

// fold is a state partition replayed: its live keys, and its last marker.
type fold struct {
	digest   uint64
	accounts map[string]*storedAccount
	inbox    map[string]*storedIDs
	others   map[string]uint64 // hash by state key, of stores that this package does not know
	scratch  []byte
	accountReader

	marker   marker
	found    bool
	at       *kgo.Record // the marker's
	loose    *kgo.Record // the last record behind the marker
	want     uint64      // transaction whose marker is looked for
	wanted   *marker     // it, when it is still there
	wantedAt *kgo.Record
	problems []problem // not told yet; the first MaxShown of a reading
	more     int       // problems beyond those
}

type problem struct {
	text string
	recs []*kgo.Record
}

// storedAccount is an account as the state topic has it.
type storedAccount struct {
	hash   uint64
	offset int64
	fault  bool // its value cannot be read
	values accountValues
}

// storedIDs is one packed record of the inbox: all its ids are of one bucket.
type storedIDs struct {
	hash      uint64
	bucketEnd int64
	census    census
}

func newFold() *fold {
	return &fold{accounts: map[string]*storedAccount{}, inbox: map[string]*storedIDs{}, others: map[string]uint64{}}
}

// lookFor begins a reading.
func (f *fold) lookFor(txnSeq uint64) {
	f.want, f.wanted, f.wantedAt = txnSeq, nil, nil
	if f.found && f.marker.txnSeq == txnSeq {
		m := f.marker
		f.wanted, f.wantedAt = &m, f.at
	}
}

func (f *fold) problem(text string, recs ...*kgo.Record) {
	if len(f.problems) >= MaxShown {
		f.more++
		return
	}
	f.problems = append(f.problems, problem{text, recs})
}

// apply replays one record.
func (f *fold) apply(rec *kgo.Record) {
	switch store, key, ok := splitKey(rec.Key); {
	case isMarkerKey(rec.Key):
		f.mark(rec)
		return
	case !ok:
		f.problem("a state record's key names no store", rec)
	case store == storeAccounts:
		f.account(string(key), rec)
	case store == storeInbox:
		f.packed(key, rec)
	default:
		f.digest -= f.others[string(rec.Key)]
		delete(f.others, string(rec.Key))
		if rec.Value != nil {
			f.others[string(rec.Key)] = f.hash(rec)
		}
	}
	f.loose = rec
}

func (f *fold) hash(rec *kgo.Record) (h uint64) {
	h, f.scratch = entryHash(rec.Key, rec.Value, f.scratch)
	f.digest += h
	return h
}

func isMarkerKey(key []byte) bool { return len(key) == 2 && key[0] == 0 && key[1] == 'm' }

// splitKey reads length, store, key.
func splitKey(b []byte) (store string, key []byte, ok bool) {
	if len(b) == 0 || b[0] == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// mark takes a marker: transactions of a task count up.
func (f *fold) mark(rec *kgo.Record) {
	m, ok := parseMarker(rec.Value)
	if !ok {
		f.problem("the applied marker cannot be read", rec)
		return
	}
	if f.found && m.txnSeq <= f.marker.txnSeq {
		f.problem(fmt.Sprintf("the marker of transaction %d follows that of %d", m.txnSeq, f.marker.txnSeq), f.at, rec)
	}
	f.marker, f.found, f.at, f.loose = m, true, rec, nil
	if m.txnSeq == f.want {
		f.wanted, f.wantedAt = &m, rec
	}
}

func (f *fold) account(key string, rec *kgo.Record) {
	if old := f.accounts[key]; old != nil {
		f.digest -= old.hash
		delete(f.accounts, key)
	}
	if rec.Value == nil {
		return
	}
	values, ok := f.accountReader.read(rec.Value)
	f.accounts[key] = &storedAccount{f.hash(rec), rec.Offset, !ok, values}
}

func (f *fold) packed(key []byte, rec *kgo.Record) {
	if old := f.inbox[string(key)]; old != nil {
		f.digest -= old.hash
		delete(f.inbox, string(key))
	}
	if rec.Value == nil {
		return
	}
	ids := &storedIDs{hash: f.hash(rec)}
	if !ids.read(key, rec.Value) {
		f.problem("a packed record of the inbox cannot be read", rec)
	}
	f.inbox[string(key)] = ids
}

// read takes bucketEnd and txnSeq from the key, and the ids of each topic from the value.
func (s *storedIDs) read(key, value []byte) bool {
	k, w := wire{b: key}, wire{b: value}
	s.bucketEnd = int64(k.uint64() ^ signBit)
	k.uint64()
	if schema := w.take(1); w.bad || schema[0] != packedSchema || k.bad || len(k.b) != 0 {
		return false
	}
	for len(w.b) > 0 && !w.bad {
		w.text()
		for n := w.uvarint(); n > 0 && !w.bad; n-- {
			id := w.take(uint64(len(identity{})))
			w.uint64() // the processor's fingerprint of the content
			if offset := w.uint64(); !w.bad {
				s.census.add(identity(id), int64(offset))
			}
		}
	}
	return !w.bad
}

// census counts the ids whose bucket ends behind the horizon.
func (f *fold) census(horizon int64) (c census) {
	for _, ids := range f.inbox {
		if ids.bucketEnd > horizon {
			c.ids += ids.census.ids
			c.sum += ids.census.sum
		}
	}
	return c
}

// stateKey is the key of an account's record, for evidence.
func stateKey(accountID string) []byte {
	key := append([]byte{byte(len(storeAccounts))}, storeAccounts...)
	return append(key, accountID...)
}

// accountValues is the contents of a stored account.
type accountValues struct {
	currency               currency
	balance, held, minimum amount
	status                 status
	version                int64
}

func (v accountValues) String() string {
	return fmt.Sprintf("{%s balance %s held %s minimum %s %s version %d}", v.currency, v.balance, v.held, v.minimum, v.status, v.version)
}

// accountReader decodes stored accounts.
type accountReader struct{ scan scanner }

// read is strict: each member once, nothing else, amounts with the currency's digits.
func (r *accountReader) read(value []byte) (v accountValues, ok bool) {
	if r.scan.open(value) != '{' || r.scan.enter() != nil {
		return v, false
	}
	var u update
	for {
		m, more, err := r.scan.next()
		if err != nil {
			return v, false
		}
		if !more {
			break
		}
		if !u.stored(m) {
			return v, false
		}
	}
	const all = 1<<uCurrency | 1<<uBalance | 1<<uHeld | 1<<uMinimum | 1<<uStatus | 1<<uVersion
	digits := u.currency.digits()
	fits := u.balance.digits == digits && u.held.digits == digits && u.minimum.digits == digits
	v = accountValues{u.currency, u.balance.amount, u.held.amount, u.minimum.amount, u.status, u.version}
	return v, u.have == all && fits && r.scan.atEnd()
}

// stored takes one member of a stored account.
func (u *update) stored(m member) (ok bool) {
	name, _ := text(m.name)
	i := updateMember(name)
	if i < 0 || u.has(i) {
		return false
	}
	u.have |= 1 << i
	if i == uVersion {
		u.version, ok = parseInt(m.value)
		return ok && u.version >= 0
	}
	content, ok := text(m.value)
	return ok && u.text(&outcome{}, i, content)
}
