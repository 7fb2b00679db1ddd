package faultnet

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Deed is what the network does with one request.
type Deed uint8

// The deeds.
const (
	Pass         Deed = iota
	DropRequest       // the request never arrives, the connection dies
	DropResponse      // the broker acts, the answer is lost, the connection dies
	DelayRequest      // the request sits in a socket and arrives late, even when its sender is gone by then
	Hang              // the request never arrives, the connection stays open and silent
	AnswerError       // the broker acts and the answer carries another error code
)

// Order says what to do with one request. The zero value lets it pass.
type Order struct {
	Deed  Deed
	Delay time.Duration // of DelayRequest
	Code  int16         // of AnswerError: Kafka's error code
	Then  func()        // may be nil: happens before the request is sent; after it sits in the socket; after the broker acted and the answer is lost
}

// Request is what the network sees of a request before it is sent.
type Request struct {
	Key     kmsg.Key
	Version int16
	N       int // how many requests the process has sent, this one included
}

// Rule acts on requests of one key until it is used up.
type Rule struct {
	Name  string // rules of one name are counted together, see Taken
	Key   kmsg.Key
	Skip  int   // so many requests of the key pass before
	Left  int   // so many are acted on
	Order Order // its Then happens at the first only
}
