package main

import (
	"testing"

	"github.com/tallystick/tallystick/record"
)

func TestANewTotalReadsWhatTheFirstReleaseStored(t *testing.T) {
	old, err := record.JSON[totalV1]().Append(nil, totalV1{Orders: 7})
	if err != nil {
		t.Fatal(err)
	}
	got, err := totalCodec.Decode(old)
	if err != nil || got != (Total{Orders: 7}) {
		t.Errorf("%+v %v", got, err)
	}
}
