//go:build synctests

package simulation

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallystick/tallystick/internal/faultnet"
)

func TestATrapThatFreezesHoldsOneWorkerAndLetsTheClockGoOn(t *testing.T) {
	stop := guard(20*time.Second, evidence(t.Name()), "go test -tags synctests -run "+t.Name()+" ./internal/simulation")
	defer stop()
	synctest.Test(t, func(t *testing.T) {
		p := &process{net: faultnet.New(nil)}
		sprung := make(chan struct{})
		trap := freezeTrap(p, time.Minute, sprung)
		began := time.Now()
		go func() {
			<-sprung
			trap("produced")
			if waited := time.Since(began); waited != 0 {
				t.Errorf("the second worker was held for %s", waited)
			}
		}()
		trap("produced")
		if held := time.Since(began); held != time.Minute {
			t.Errorf("the first worker was held for %s", held)
		}
		synctest.Wait()
	})
}
