package session

import "testing"

// Brokers keep transactional ids and group instance ids: another spelling would leave the old ones open, and lock their owner out.
func TestNamesAreFrozen(t *testing.T) {
	if got := TransactionalID("bank", "i1", 0); got != "bank-i1-0" {
		t.Error(got)
	}
	if got := InstanceID("i1", 2); got != "i1-2" {
		t.Error(got)
	}
}
