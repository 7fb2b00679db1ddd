package topology

import (
	"github.com/tallystick/tallystick/ledger"
	"github.com/tallystick/tallystick/record"
)

// DecodeStrict is decoding by the library alone, without the fast path.
func DecodeStrict(src []byte) (ledger.Event, error) {
	if len(src) == 0 {
		return EventCodec.Decode(src)
	}
	return decodeStrict(src)
}

// Accounts is the codec of the store.
var Accounts record.Codec[ledger.Account] = accountCodec{}
