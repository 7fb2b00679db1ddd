package campaign

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// autopsy keeps what an engineer would ask for when the job stands still: how far it is, who is a member, which transactions
// are open, and where each goroutine of each processor waits (in their logs).
func (r *round) autopsy(t *testing.T) {
	t.Helper()
	for _, sub := range [][]string{{"lag"}, {"tx", "list"}} {
		out, err := r.command.Run(t.Context(), 10*time.Second, sub...)
		t.Logf("processor %v: %v\n%s", sub, err, out)
	}
	t.Log(r.group(t))
	t.Log(r.up.figures())
	for _, i := range r.running() {
		_ = syscall.Kill(i.Proc.Pid(), syscall.SIGQUIT) // Go prints all stacks and ends
		<-i.Proc.Done()
		t.Logf("%s: %s", i.Name, i.Log)
	}
}

// group says who is a member and what each was given.
func (r *round) group(t *testing.T) (text string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	groups, err := r.adm.DescribeGroups(ctx, app)
	if err != nil {
		return err.Error()
	}
	g := groups[app]
	text = fmt.Sprintf("group %s: %s %v\n", app, g.State, g.Err)
	for _, m := range g.Members {
		assigned := "nothing"
		if a, ok := m.Assigned.AsConsumer(); ok {
			assigned = fmt.Sprint(a.Topics)
		}
		instance := ""
		if m.InstanceID != nil {
			instance = *m.InstanceID
		}
		text += fmt.Sprintf("  %s: %s\n", instance, assigned)
	}
	return text
}
