package state

// orphans are the live keys of stores that the program does not declare: removed ones, renamed ones, or those that a newer
// version added. They count in the digest, and a task runs only when there are none. Of a value its hash is all that is needed.
type orphans map[string]uint64 // by state key

// replay applies a record of the state topic.
func (o *orphans) replay(m *Memory, key, value []byte) error {
	if _, _, err := splitKey(key); err != nil {
		return err
	}
	m.digest -= (*o)[string(key)]
	delete(*o, string(key))
	if value == nil {
		return nil
	}
	if *o == nil {
		*o = orphans{}
	}
	hash := m.hasher.record(key, value)
	m.digest += hash
	(*o)[string(key)] = hash
	return nil
}

// Orphans implements Base.
func (m *Memory) Orphans() map[string]int {
	count := map[string]int{}
	for key := range m.orphans {
		store, _, _ := splitKey([]byte(key)) // replay has looked
		count[string(store)]++
	}
	return count
}
