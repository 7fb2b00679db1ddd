package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tallystick/tallystick/record"
)

// The forms of one value over the years.
type (
	nameV1 struct {
		Name string `json:"name"`
	}
	nameV2 struct {
		First string `json:"first"`
		Last  string `json:"last"`
	}
	nameV3 struct {
		First string `json:"first"`
		Last  string `json:"last"`
		Born  int    `json:"born"`
	}
)

func toV2(v nameV1) nameV2 {
	first, last, _ := strings.Cut(v.Name, " ")
	return nameV2{first, last}
}

func toV3(v nameV2) nameV3 { return nameV3{v.First, v.Last, -1} }

func names() (v1 record.Codec[nameV1], v2 record.Codec[nameV2], v3 record.Codec[nameV3]) {
	v1 = record.JSON[nameV1]()
	v2 = record.Versioned(2, record.JSON[nameV2](), v1, toV2)
	v3 = record.Versioned(3, record.JSON[nameV3](), v2, toV3)
	return v1, v2, v3
}

func encode[T any](t interface{ Fatal(...any) }, c record.Codec[T], v T) []byte {
	b, err := c.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVersionedReadsAllFormsAndWritesTheLast(t *testing.T) {
	v1, v2, v3 := names()
	if got := v1.ID() + " " + v2.ID() + " " + v3.ID(); got != "json json+v2 json+v3" {
		t.Errorf("ids are %s", got)
	}
	for want, b := range map[nameV3][]byte{
		{"Ada", "Lovelace", -1}:   encode(t, v1, nameV1{"Ada Lovelace"}),
		{"Grace", "Hopper", -1}:   encode(t, v2, nameV2{"Grace", "Hopper"}),
		{"Barbara", "Liskov", 39}: encode(t, v3, nameV3{"Barbara", "Liskov", 39}),
		{"Alan", "Turing", -1}:    []byte("\n {\"name\":\"Alan Turing\"}"), // white space is old JSON, no mark
	} {
		got, err := v3.Decode(b)
		if err != nil || got != want {
			t.Errorf("%q is read as %+v, %v; want %+v", b, got, err, want)
		}
	}
	// Frozen bytes: a release reads what every earlier one wrote.
	if b := encode(t, v3, nameV3{"A", "B", 1}); string(b) != "\x03{\"first\":\"A\",\"last\":\"B\",\"born\":1}" {
		t.Errorf("written as %q", b)
	}
}

func TestVersionedKeepsWhatItAppendsTo(t *testing.T) {
	_, v2, _ := names()
	b, err := v2.Append([]byte("key:"), nameV2{"A", "B"})
	if err != nil || !bytes.HasPrefix(b, []byte("key:\x02{")) {
		t.Errorf("got %q, %v", b, err)
	}
	broken := record.Versioned(2, failing{}, record.JSON[string](), func(s string) int { return len(s) })
	if b, err := broken.Append([]byte("key:"), 1); err == nil || string(b) != "key:" {
		t.Errorf("got %q, %v: a failed Append must leave dst as it was", b, err)
	}
}

type failing struct{}

func (failing) ID() string { return "failing" }
func (failing) Append(dst []byte, _ int) ([]byte, error) {
	return append(dst, "half"...), errors.New("no")
}
func (failing) Decode(src []byte) (int, error) { return len(src), nil }
func (failing) MayBegin(b byte) bool           { return b != 2 }
func longer(s string) []byte                   { return []byte(s) }
func same(n int) int                           { return n }
func plain() record.Codec[string]              { return record.JSON[string]() }
func second() record.Codec[string]             { return record.Versioned(2, plain(), plain(), strings.ToUpper) }

func TestVersionedSaysThatANewerProgramWroteAValue(t *testing.T) {
	_, v2, v3 := names()
	_, err := v2.Decode(encode(t, v3, nameV3{"A", "B", 1}))
	var m *record.MalformedError
	if !errors.Is(err, record.ErrNewerVersion) || !errors.As(err, &m) || m.Reason != "newer_version" || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("got %v", err)
	}
}

// A byte with which values of the first form can begin is theirs, whatever version it would mark.
func TestVersionedTakesNoOldValueForANewerOne(t *testing.T) {
	c := record.Versioned(2, record.Int64, failing{}, func(n int) int64 { return int64(-n) })
	if got, err := c.Decode([]byte{5, 0, 0}); err != nil || got != -3 {
		t.Errorf("got %d, %v, want the old codec's three bytes", got, err)
	}
	_, _, v3 := names()
	for b, want := range map[byte]bool{2: true, 3: true, 4: false, '{': true} {
		if got := v3.(record.Beginner).MayBegin(b); got != want {
			t.Errorf("version 3 may begin with %#02x: %v", b, got)
		}
	}
}

func TestVersionedReadsNullAsTheNewForm(t *testing.T) {
	c := record.Versioned(2, record.Bytes, record.JSON[string](), longer)
	if b, err := c.Decode(nil); err != nil || b != nil {
		t.Errorf("null is read as %q, %v", b, err)
	}
	if b, err := c.Decode([]byte{2}); err != nil || len(b) != 0 {
		t.Errorf("an empty value is read as %q, %v", b, err)
	}
	if _, err := c.Decode([]byte{}); err == nil {
		t.Error("no bytes at all are no JSON, and no version 2 either")
	}
}

func TestVersionedAndNullableWrapEachOther(t *testing.T) {
	_, v2, _ := names()
	inner := record.Nullable(v2)
	outer := record.Versioned(3, record.Nullable(record.JSON[nameV3]()), inner, func(v record.Optional[nameV2]) record.Optional[nameV3] {
		return record.Optional[nameV3]{Value: toV3(v.Value), Set: v.Set}
	})
	if err := record.CheckCodec(outer); err != nil || outer.ID() != "json+v3" {
		t.Errorf("%s: %v", outer.ID(), err)
	}
	got, err := outer.Decode(encode(t, inner, record.Some(nameV2{"A", "B"})))
	if err != nil || got != record.Some(nameV3{"A", "B", -1}) {
		t.Errorf("got %+v, %v", got, err)
	}
	if b, err := outer.Append(nil, record.Optional[nameV3]{}); err != nil || b != nil {
		t.Errorf("null is written as %q, %v", b, err)
	}
	if err := record.CheckCodec(record.Nullable(record.Versioned(9, plain(), plain(), strings.ToUpper))); err == nil {
		t.Error("the mistake of the inner codec is not reported")
	}
}

func TestVersionedThatCannotWorkSaysSo(t *testing.T) {
	for want, c := range map[string]any{
		"begin with byte 0x02": record.Versioned(2, record.JSON[[]byte](), bytesThatMayBegin{}, bytes.Clone),
		"give it the method":   record.Versioned(2, record.JSON[string](), record.String, strings.ToUpper),
		"codec \"int64\"":      record.Versioned(2, record.Int64, record.Int64, func(n int64) int64 { return n }),
		"version 3 follows":    record.Versioned(3, plain(), plain(), strings.ToUpper),
		"version 2 follows":    record.Versioned(2, plain(), second(), strings.ToUpper),
		"version 1 follows":    record.Versioned(1, plain(), plain(), strings.ToUpper),
		"version 9 follows":    record.Versioned(2, record.Versioned(9, plain(), plain(), strings.ToUpper), plain(), strings.ToUpper), // of the new form itself
		"lacks the new codec":  record.Versioned[string, string](2, plain(), plain(), nil),
		"up to 28":             chain(record.MaxVersion + 1)[record.MaxVersion],
		"version 4 follows":    record.Versioned(3, plain(), record.Versioned(4, plain(), second(), strings.ToUpper), strings.ToUpper), // of the inner one
	} {
		err := record.CheckCodec(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := record.CheckCodec(record.Versioned(2, failing{}, failing{}, same)); err != nil {
		t.Errorf("a codec that says how it begins is refused: %v", err)
	}
	unfit := record.Versioned(7, plain(), plain(), strings.ToUpper)
	if _, err := unfit.Append(nil, "x"); err == nil {
		t.Error("an unfit codec writes")
	}
	if _, err := unfit.Decode([]byte(`"x"`)); err == nil {
		t.Error("an unfit codec reads")
	}
}

type bytesThatMayBegin struct{ record.Codec[[]byte] }

func (bytesThatMayBegin) ID() string           { return "raw" }
func (bytesThatMayBegin) MayBegin(b byte) bool { return true }

// chain is a value under n versions, whose reader counts the upgrades that it needed.
func chain(n int) []record.Codec[int] {
	codecs := []record.Codec[int]{record.JSON[int]()}
	for v := 2; v <= n; v++ {
		codecs = append(codecs, record.Versioned(byte(v), record.JSON[int](), codecs[len(codecs)-1], func(n int) int { return n + 1 }))
	}
	return codecs
}

// Every version up to the last is told from every other, whatever the value.
func TestVersionedChainsAreUnambiguous(t *testing.T) {
	codecs := chain(record.MaxVersion)
	rapid.Check(t, func(t *rapid.T) {
		wrote := rapid.IntRange(1, len(codecs)).Draw(t, "wrote")
		reads := rapid.IntRange(1, len(codecs)).Draw(t, "reads")
		n := rapid.IntRange(-1e9, 1e9).Draw(t, "n")
		got, err := codecs[reads-1].Decode(encode(t, codecs[wrote-1], n))
		switch {
		case wrote <= reads && (err != nil || got != n+reads-wrote):
			t.Fatalf("version %d of %d read by version %d: %d, %v", wrote, n, reads, got, err)
		case wrote > reads && reads > 1 && !errors.Is(err, record.ErrNewerVersion):
			t.Fatalf("version %d of %d read by version %d: %d, %v; want ErrNewerVersion", wrote, n, reads, got, err)
		case wrote > reads && err == nil:
			t.Fatalf("version %d of %d is read by version %d as %d", wrote, n, reads, got)
		}
	})
	if id := codecs[len(codecs)-1].ID(); id != fmt.Sprintf("json+v%d", record.MaxVersion) {
		t.Errorf("the last is called %s", id)
	}
}

// Whatever is read is written so that it is read as the same again.
func FuzzVersionedRoundTrip(f *testing.F) {
	v1, v2, v3 := names()
	for _, b := range [][]byte{encode(f, v1, nameV1{"A B"}), encode(f, v2, nameV2{"A", "B"}), encode(f, v3, nameV3{"A", "B", 3}), {}, {4}, {3}, {2, 3, 4}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := v3.Decode(b)
		if err != nil {
			return
		}
		again, err := v3.Decode(encode(t, v3, v))
		if err != nil || again != v {
			t.Fatalf("%q is %+v, and again %+v, %v", b, v, again, err)
		}
	})
}
