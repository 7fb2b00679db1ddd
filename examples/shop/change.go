package main

import "github.com/tallystick/tallystick/record"

// totalV1 is a total as the first release stored it.
type totalV1 struct {
	Orders int64 `json:"orders"`
}

// totalCodec reads both forms and writes the new one.
var totalCodec = record.Versioned(2, record.JSON[Total](), record.JSON[totalV1](), func(old totalV1) Total {
	return Total{Orders: old.Orders}
})
