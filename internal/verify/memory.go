package verify

import "cmp"

const (
	defaultMemory = 512 << 20
	rawMemory     = 384 << 20 // its default in raw mode
	leastMemory   = 1 << 20
)

// memory says how much of it event ids may take, and where the rest goes. Accounts are not in it: each takes an entry of its
// own, about 400 bytes with the one of the state topic.
type memory struct {
	bytes  int64
	tables int // inboxes that are held at once
	least  int // entries that a table keeps in any case; default a chunk
	create scratch
}

func (m memory) table() *idTable {
	return newIDTable(m.inbox(), cmp.Or(m.least, chunkEntries), m.create)
}

func (m memory) sorter() *postings {
	return &postings{create: m.create, limit: max(cmp.Or(m.least, minPostings), int(m.bytes/4)/postingSize)}
}

// inbox is the share of one inbox: together three quarters. The rest is for what is sorted over all partitions.
func (m memory) inbox() int64 { return m.bytes / 4 * 3 / int64(max(m.tables, 1)) }
