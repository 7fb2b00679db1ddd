package kafkatest

import (
	"fmt"
	"net"
)

// A slot is the set of ports of one cluster. A package's range holds several, so that a second run
// of the same package on the same machine does not meet the first one's ports.
const (
	slotPorts = 40
	slots     = 5

	clientPort     = 0  // what clients dial
	saslPort       = 5  // the same with a password
	controllerPort = 10 // the quorum
	internalPort   = 20 // what brokers listen on for each other
	proxyPort      = 30 // what they dial instead
	maxListeners   = 14 // of Options.Listeners: 13 to 19 and 23 to 29
	lockPort       = 39 // held by this process for as long as it owns the slot
)

type slot struct {
	first int
	lock  net.Listener
}

// takeSlot returns the first slot of the range that no other process holds.
func takeSlot(firstPort int) (slot, error) {
	var err error
	for i := range slots {
		s := slot{first: firstPort + i*slotPorts}
		if s.lock, err = net.Listen("tcp", s.addr(lockPort, 0)); err == nil {
			return s, nil
		}
	}
	return slot{}, fmt.Errorf("ports %d to %d are all in use, end the other test runs: %w", firstPort, firstPort+slots*slotPorts-1, err)
}

// addr is the address of one listener of the broker with this index.
func (s slot) addr(kind, index int) string {
	return fmt.Sprintf("127.0.0.1:%d", s.first+kind+index)
}

func listenerPort(i int) int {
	if i < 7 {
		return controllerPort + 3 + i
	}
	return internalPort + 3 + i - 7
}
