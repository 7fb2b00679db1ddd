package verify

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"
)

const good = `{"event_id":"e","type":"credit","account_id":"a","amount":"1.50","currency":"EUR","occurred_at":"2026-11-30T10:00:00Z"}`

// with replaces a part of the good event.
func with(old, new string) string {
	if !strings.Contains(good, old) {
		panic(old)
	}
	return strings.Replace(good, old, new, 1)
}

func opening(rest string) string {
	return `{"event_id":"e","type":"account","account_id":"a","occurred_at":"2026-11-30T10:00:00Z"` + rest + `}`
}

func TestEventsAreRefusedForEveryReasonThatHolds(t *testing.T) {
	for _, c := range []struct {
		value string
		want  reasons
	}{
		{good, 0},
		{with(`"type":"credit",`, ""), 0},
		{with(`event_id`, `event\u005fid`), 0},
		{" " + good + "\n", 0},
		{opening(`,"to":"open","currency":"EUR"`), 0},
		{opening(`,"to":"open","currency":"EUR","minimum":"-5"`), 0},
		{opening(`,"to":"closed"`), 0},

		{good[:40], set(malformedJSON)},
		{good + "x", set(malformedJSON)},
		{`[]`, set(malformedJSON, wrongType, nullMember)},
		{"{\"event_id\":\"\xff\"}", set(malformedJSON)},
		{with(`{`, `{"event_id":"e",`), set(duplicateName)},
		{with(`{`, `{"x":1,"x":2,`), set(unknownName, duplicateName)},
		{with(`"e"`, `{"x":1,"x":2}`), set(wrongType, duplicateName)},
		{with(`amount`, `Amount`), set(unknownName, missingMember)},
		{with(`"e"`, `null`), set(nullMember)},
		{with(`"a"`, `5`), set(wrongType)},
		{with(`"1.50"`, `1.50`), set(amountNotString, wrongType)},
		{with(`"1.50"`, `"1e2"`), set(amountSyntax)},
		{with(`"1.50"`, `"1.505"`), set(amountDigits)},
		{with(`"1.50"`, `"1.50505"`), set(amountDigits, amountSyntax)},
		{with(`"1.50"`, `"99999999999999999.99"`), 0},
		{with(`"1.50"`, `"-99999999999999999.99"`), 0},
		{with(`"1.50"`, `"100000000000000000"`), set(amountRange, amountSyntax)},
		{with(`"1.50","currency":"EUR"`, `"99999999999999999.991","currency":"KWD"`), set(amountRange)},
		{with(`"1.50"`, `"-0.00"`), set(negativeZero)},
		{with(`EUR`, `eur`), set(badCurrency)},
		{with(`EUR`, `XAU`), set(badCurrency)},
		{with(`"a"`, `"b"`), set(keyMismatch)},
		{with(`"e"`, `" e"`), set(badID)},
		{with(`"e"`, `"e\u200b"`), set(badID)},
		{with(`"e"`, `"e\u0301"`), set(badID)},
		{with(`"e"`, `"`+strings.Repeat("e", 256)+`"`), set(badID)},
		{with(`"e"`, `""`), set(badID)},
		{with(`"event_id":"e",`, ``), set(missingMember)},
		{with(`Z"`, `"`), set(badTime)},
		{with(`11-30`, `02-29`), set(badTime)},
		{with(`credit`, `transfer`), set(unknownType)},
		{with(`credit`, `payment`), set(unsupportedType)},
		{with(`"amount"`, `"to":"open","amount"`), set(unknownName)},
		{opening(``), set(missingMember)},
		{opening(`,"to":"open"`), set(missingMember)},
		{opening(`,"to":"ajar"`), set(badTransition)},
		{opening(`,"to":"closed","currency":"EUR"`), set(unknownName, badTransition)},
		{opening(`,"to":"closed","amount":"1"`), set(unknownName)},
	} {
		var r eventReader
		_, bad := r.read(&kgo.Record{Key: []byte("a"), Value: []byte(c.value)})
		if bad != c.want {
			t.Errorf("%s\nis refused for %s, want %s", c.value, bad, c.want)
		}
	}
}

func TestRecordsWithoutKeyOrValueAreRefused(t *testing.T) {
	var r eventReader
	for _, c := range []struct {
		key, value []byte
		want       reasons
	}{
		{nil, []byte(good), set(nullKey, keyMismatch)}, {[]byte("a"), nil, set(nullValue)}, {[]byte("a"), []byte{}, set(emptyValue)},
	} {
		if _, bad := r.read(&kgo.Record{Key: c.key, Value: c.value}); bad != c.want {
			t.Errorf("%q %q is refused for %s, want %s", c.key, c.value, bad, c.want)
		}
	}
}

func TestCloudEventsAreIdentifiedByTheirHeaders(t *testing.T) {
	none := with(`"event_id":"e",`, ``)
	for _, c := range []struct {
		value, headers string
		want           reasons
		id, source     string
	}{
		{good, "content-type=application/json", 0, "e", ""},
		{good, "ce_id=e ce_source=/s ce_specversion=1.0", 0, "e", "/s"},
		{none, "ce_id=x ce_source=/s ce_specversion=1.0 ce_type=t", 0, "x", "/s"},
		{good, "ce_id=x ce_source=/s ce_specversion=1.0", set(cloudEventsInvalid), "", ""},
		{none, "ce_id=x ce_specversion=1.0", set(cloudEventsInvalid, badID), "", ""},
		{none, "ce_id=x ce_source=/s", set(cloudEventsInvalid), "", ""},
		{none, "ce_id=x ce_source=/s ce_specversion=0.3", set(cloudEventsInvalid), "", ""},
		{good, "ce_type=t ce_specversion=1.0", set(cloudEventsInvalid, badID), "", ""},
		{good, "Content-Type=application/CloudEvents+json", set(cloudEventsStructured), "", ""},
	} {
		rec := &kgo.Record{Key: []byte("a"), Value: []byte(c.value)}
		for _, h := range strings.Fields(c.headers) {
			key, value, _ := strings.Cut(h, "=")
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
		}
		var r eventReader
		e, bad := r.read(rec)
		if bad != c.want || bad == 0 && (string(e.id) != c.id || string(e.source) != c.source) {
			t.Errorf("%s with %s: %q of %q, refused for %s, want %s", c.value, c.headers, e.id, e.source, bad, c.want)
		}
	}
}

func TestSpellingIsNoContent(t *testing.T) {
	content := func(value string) uint64 {
		var r eventReader
		var h hasher
		e, bad := r.read(&kgo.Record{Key: []byte("a"), Value: []byte(value)})
		if bad != 0 {
			t.Fatalf("%s: %s", value, bad)
		}
		return h.content(&e)
	}
	for _, same := range []string{with(`"1.50"`, `"1.5"`), with("10:00:00Z", "11:30:00.000+01:30"), with(`"type":"credit",`, "")} {
		if content(same) != content(good) {
			t.Errorf("%s says something else", same)
		}
	}
	for _, other := range []string{with(`"1.50"`, `"1.51"`), with("10:00:00Z", "10:00:00.000000001Z"), with("credit", "debit"), with("EUR", "USD")} {
		if content(other) == content(good) {
			t.Errorf("%s says the same", other)
		}
	}
	if content(opening(`,"to":"open","currency":"EUR"`)) != content(opening(`,"to":"open","currency":"EUR","minimum":"0.00"`)) {
		t.Error("an absent minimum is 0")
	}
}

func TestTimesAgreeWithPackageTime(t *testing.T) {
	for _, text := range []string{
		"2026-11-30T10:00:00Z", "1970-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2000-02-29T12:00:00+14:00",
		"1900-03-01T00:00:00-23:59", "2026-11-30T10:00:00.1234567891Z", "1969-12-31T23:59:59.5Z",
	} {
		want, err := time.Parse(time.RFC3339, text)
		at, ok := parseTime([]byte(text))
		if err != nil || !ok || at.seconds != want.Unix() || int(at.nanos) != want.Nanosecond() {
			t.Errorf("%s is %v %v, want %d %d %v", text, at, ok, want.Unix(), want.Nanosecond(), err)
		}
	}
	for _, text := range []string{
		"", "2026-11-30", "2026-11-30T10:00:00", "2026-11-30t10:00:00Z", "2026-11-30T10:00:00z", "2026-11-30T24:00:00Z", "2026-11-30T10:00:60Z",
		"2026-02-29T10:00:00Z", "1900-02-29T10:00:00Z", "2026-13-01T10:00:00Z", "2026-00-01T10:00:00Z", "2026-11-31T10:00:00Z", "2026-11-30T10:00:00,5Z",
		"2026-11-30T10:00:00.Z", "2026-11-30T10:00:00+24:00", "2026-11-30T10:00:00+01:60", "2026-11-30T10:00:00+0100", "+026-11-30T10:00:00Z",
	} {
		if _, ok := parseTime([]byte(text)); ok {
			t.Errorf("%s is accepted", text)
		}
	}
}

func TestDatesAgreeWithPackageTime(t *testing.T) {
	if err := quick.Check(func(n uint32) bool {
		want := time.Unix(int64(n)*58-62_000_000_000, 0).UTC() // years 5 to 7900
		at, ok := parseTime([]byte(want.Format("2006-01-02T15:04:05Z")))
		return ok && at.seconds == want.Unix()
	}, &quick.Config{MaxCount: 20_000}); err != nil {
		t.Error(err)
	}
}

func TestAmountsAgreeWithBigIntegers(t *testing.T) {
	if err := quick.Check(func(u1, u2 int64, f1, f2 uint16) bool {
		a, b := amount{u1 >> 4, int32(f1) % scale}, amount{u2 >> 4, int32(f2) % scale}
		sum, diff := a.add(b), a.sub(b)
		x, y := a.big(), b.big()
		less := x.Cmp(y) < 0
		return sum.big().Cmp(x.Add(x, y)) == 0 && diff.big().Cmp(x.Sub(x, y).Sub(x, y)) == 0 && a.less(b) == less && a.neg().neg() == a
	}, nil); err != nil {
		t.Error(err)
	}
}

func TestAmountsPrintAsTheyAreWritten(t *testing.T) {
	for _, text := range []string{"0.00", "-0.01", "12.50", "-99999999999999999.99", "99999999999999999.99", "-1.00"} {
		w, bad := parseAmount([]byte(text), 2)
		if bad != 0 || w.text(2) != text {
			t.Errorf("%s prints as %s (%s)", text, w.text(2), bad)
		}
	}
}

func TestASumHasNoRange(t *testing.T) {
	var s total
	for range 200 {
		s.add(amount{limitUnit, limitFrac})
	}
	if got, want := decimal(s.value(), 2), "19999999999999999998.00"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCurrenciesHaveTheirDigits(t *testing.T) {
	for code, want := range map[string]int{"EUR": 2, "JPY": 0, "KWD": 3, "CLF": 4, "ISK": 0, "UYW": 4, "XCG": 2, "BGN": 2} {
		if _, digits, ok := parseCurrency([]byte(code)); !ok || digits != want {
			t.Errorf("%s has %d digits, want %d", code, digits, want)
		}
	}
	for _, code := range []string{"", "EU", "EURO", "eur", "XAU", "XXX", "E R", "ABC"} {
		if _, _, ok := parseCurrency([]byte(code)); ok {
			t.Errorf("%q is accepted", code)
		}
	}
}

// The list in package money is not imported here, so the two are compared by number.
func TestThereAre171Currencies(t *testing.T) {
	n := 0
	for _, list := range []string{noDigits, twoDigits, threeDigits, fourDigits} {
		n += len(strings.Fields(list))
	}
	if n != 171 {
		t.Errorf("%d currencies", n)
	}
}

func TestHashesAreXXH64(t *testing.T) {
	if err := quick.Check(func(b []byte) bool { return xxh64(b) == xxhash.Sum64(b) }, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	if h := xxh64(nil); h != 0xef46db3751d8e999 {
		t.Errorf("of nothing: %x", h)
	}
}

func TestKeysGoWhereKafkasClientsPutThem(t *testing.T) {
	p := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	if err := quick.Check(func(key []byte) bool {
		r := &kgo.Record{Key: append([]byte{}, key...)}
		return int(partitionOf(r.Key, 12)) == p.Partition(r, 12)
	}, nil); err != nil {
		t.Error(err)
	}
}

// What librdkafka calls consistent and sarama's hash partitioner, written a second time.
func TestOtherPartitionersAreKnown(t *testing.T) {
	key := []byte("ACC-7")
	h := fnv.New32a()
	h.Write(key)
	signed := int64(int32(h.Sum32())) % 12
	for name, want := range map[string]int64{"crc32": int64(crc32.ChecksumIEEE(key)) % 12, "fnv1a": max(signed, -signed), "murmur2": int64(partitionOf(key, 12))} {
		place, ok := placement(name)
		if !ok || int64(place(key, 12)) != want {
			t.Errorf("%s: %d, want %d", name, place(key, 12), want)
		}
	}
}

func TestMetadataIsReadStrictly(t *testing.T) {
	c := newCommit(7, "tallystick/1 txn=12 digest=00ff00ff00ff00ff")
	if !c.valid || c.txnSeq != 12 || c.digest != 0x00ff00ff00ff00ff || !c.found {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", "tallystick/2 txn=1 digest=00ff00ff00ff00ff", "tallystick/1 txn=1 digest=ff", "tallystick/1 txn=-1 digest=00ff00ff00ff00ff", "tallystick/1  txn=1 digest=00ff00ff00ff00ff"} {
		if newCommit(7, bad).valid {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestTheInboxForgetsByStreamTime(t *testing.T) {
	b := newInbox(64*time.Second, memory{bytes: leastMemory}.table())
	id := identity{1}
	step := func(at int64, want ruling) {
		t.Helper()
		if got, _ := b.rule(id, 5, at); got != want {
			t.Errorf("at %d: %d, want %d", at, got, want)
		}
	}
	step(-500, isNew)
	b.remember(id, 5, 0, -500, true) // its bucket ends at 0
	b.advance(-500)
	step(-500, isDuplicate)
	step(63_999, isDuplicate)
	step(64_000, isNew) // the bucket's end is no more behind the horizon
	b.advance(64_001)
	step(0, isExpired)
	step(1, isNew)
	if got, _ := b.rule(id, 6, -1); got != isExpired {
		t.Errorf("%d, want expired", got)
	}
}

func TestABucketIsThatOfStreamTime(t *testing.T) {
	b := newInbox(64*time.Second, memory{bytes: leastMemory}.table())
	b.advance(1_000_000)
	b.remember(identity{1}, 1, 0, 5, true) // stamped 1970: its id must live as long as the others
	if e, _ := b.ids.find(identity{1}); e.bucketEnd != 1_001_000 {
		t.Errorf("bucket ends at %d", e.bucketEnd)
	}
	if h := b.horizon(math.MinInt64); h != math.MinInt64 {
		t.Errorf("the beginning of time has the horizon %d", h)
	}
}

func TestTheIDTableFindsWhatWasAdded(t *testing.T) {
	table := memory{bytes: defaultMemory}.table()
	const n = 3*chunkEntries + 5
	for i := range n {
		table.put(newEntry(numbered(i), 0, int64(i), 1, i%2 == 0), 0)
	}
	for i := range n + 10 {
		e, ok := table.find(numbered(i))
		if ok != (i < n) || ok && (e.offset() != int64(i) || e.applied() != (i%2 == 0)) {
			t.Fatalf("entry %d is %v", i, e)
		}
	}
}

func numbered(i int) (id identity) {
	binary.BigEndian.PutUint64(id[8:], uint64(i)) // the first half is the same for all: the worst case is still right
	binary.LittleEndian.PutUint64(id[:], uint64(i%1000))
	return id
}

func TestPostingsKeepPartitionAndOffset(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		p := newPosting(identity{}, 1<<19-1, 1<<44-1, fresh)
		if p.partition() != 1<<19-1 || p.offset() != 1<<44-1 || p.fresh() != fresh {
			t.Errorf("%d %d %v", p.partition(), p.offset(), p.fresh())
		}
	}
}

func TestEvidenceTellsNullEmptyAndTextApart(t *testing.T) {
	for want, value := range map[string][]byte{"value=<null>": nil, "value=": {}, "value=null": []byte("null"), `value="\xff\u200b"`: []byte("\xff\u200b")} {
		if s := evidence("input", &kgo.Record{Value: value}).String(); !strings.HasSuffix(s, want) {
			t.Errorf("%q does not end in %s", s, want)
		}
	}
	if s := evidence("input", &kgo.Record{Value: make([]byte, 10_000)}).String(); !strings.Contains(s, "… (10000 bytes)") {
		t.Error(s)
	}
}

func TestReasonsHaveDistinctWords(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasonCount {
		back, ok := parseReason([]byte(r.String()))
		if !ok || back != r || seen[r.String()] || r.String() == "" {
			t.Errorf("reason %d is %q", r, r)
		}
		seen[r.String()] = true
	}
	if fmt.Sprint(set(conflict, badID)) != "conflict or bad_id" || fmt.Sprint(set()) != "none" {
		t.Error(set(conflict, badID), set())
	}
}
