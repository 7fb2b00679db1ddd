package verify

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const maxIDBytes = 255

// validID is 1 to 255 bytes of NFC UTF-8, no control or invisible formatting characters, no outer white space.
func validID(id []byte) bool {
	if len(id) == 0 || len(id) > maxIDBytes {
		return false
	}
	if plain(id) {
		return id[0] != ' ' && id[len(id)-1] != ' '
	}
	return utf8.Valid(id) && norm.NFC.IsNormal(id) && bytes.IndexFunc(id, invisible) < 0 && len(bytes.TrimSpace(id)) == len(id)
}

// plain is printable ASCII, the common case.
func plain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// invisible characters leave no mark or steer their surroundings: controls, formats, separators of lines and paragraphs. What
// only shapes a written character, as a variation selector does, is a part of it.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// instant is a point in time, whatever zone it was written in.
type instant struct {
	seconds int64 // since 1970
	nanos   int32
}

const (
	dateTimeLen = len("2026-11-30T10:00:00")
	zoneLen     = len("+05:30")
)

// parseTime reads RFC 3339 with a zone: capital T and Z, a point before the fraction, no leap second. Digits of the
// fraction behind the ninth do not count.
func parseTime(text []byte) (at instant, ok bool) {
	if len(text) <= dateTimeLen {
		return at, false
	}
	if at.seconds, ok = parseDateTime(text[:dateTimeLen]); !ok {
		return at, false
	}
	rest := text[dateTimeLen:]
	if rest[0] == '.' {
		if at.nanos, rest, ok = parseFraction(rest[1:]); !ok {
			return at, false
		}
	}
	offset, ok := parseZone(rest)
	at.seconds -= offset
	return at, ok
}

func parseDateTime(text []byte) (seconds int64, ok bool) {
	if text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	year, ok1 := number(text[0:4], 0, 9999)
	month, ok2 := number(text[5:7], 1, 12)
	day, ok3 := number(text[8:10], 1, 31)
	hour, ok4 := number(text[11:13], 0, 23)
	minute, ok5 := number(text[14:16], 0, 59)
	second, ok6 := number(text[17:19], 0, 59)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || day > daysIn(year, month) {
		return 0, false
	}
	return daysSince1970(year, month, day)*86400 + hour*3600 + minute*60 + second, true
}

func parseFraction(text []byte) (nanos int32, rest []byte, ok bool) {
	weight := int32(1_000_000_000)
	i := 0
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		weight /= 10
		nanos += int32(text[i]-'0') * weight
	}
	return nanos, text[i:], i > 0
}

func parseZone(text []byte) (offset int64, ok bool) {
	if string(text) == "Z" {
		return 0, true
	}
	if len(text) != zoneLen || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	hours, ok1 := number(text[1:3], 0, 23)
	minutes, ok2 := number(text[4:6], 0, 59)
	offset = hours*3600 + minutes*60
	if text[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2
}

// number reads digits, all of them, within limits.
func number(text []byte, low, high int64) (n int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, low <= n && n <= high
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSince1970 counts in the proleptic Gregorian calendar, with years that begin in March.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	era := floorDiv(year, 400)
	ofEra := year - era*400
	ofYear := (153*(month-3)+2)/5 + day - 1
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719468
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
