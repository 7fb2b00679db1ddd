package state

import (
	"fmt"
	"strconv"
	"strings"
)

const metadataPrefix = "tallystick/1 txn="

// Metadata is what the offset commit of a transaction says of the task's state, so that offsets and state topic prove each
// other (I2).
type Metadata struct {
	TxnSeq, Digest uint64 // as in the marker of the same transaction
}

// AppendMetadata appends the text that goes into the metadata field of an offset commit.
func AppendMetadata(dst []byte, m Metadata) []byte {
	dst = append(dst, metadataPrefix...)
	dst = strconv.AppendUint(dst, m.TxnSeq, 10)
	return fmt.Appendf(dst, " digest=%016x", m.Digest)
}

// ParseMetadata reads what AppendMetadata wrote, and nothing else.
func ParseMetadata(s string) (Metadata, error) {
	txn, digest, _ := strings.Cut(strings.TrimPrefix(s, metadataPrefix), " digest=")
	var m Metadata
	var err1, err2 error
	m.TxnSeq, err1 = strconv.ParseUint(txn, 10, 64)
	m.Digest, err2 = strconv.ParseUint(digest, 16, 64)
	if err1 != nil || err2 != nil || string(AppendMetadata(nil, m)) != s {
		return Metadata{}, fmt.Errorf("offset metadata %q: want %q: another program or a reset tool committed this offset",
			s[:min(len(s), 80)], metadataPrefix+"<n> digest=<16 hex digits>")
	}
	return m, nil
}
