package devbroker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Evict does what the embedded broker forgets, and a real one does when a session or a rebalance times out; call it when a group
// has made no progress for longer than that. It keeps a member that died while it joined. And it counts a member that goes
// while it waits for its assignment as one that waited to join: from then on the count of those who joined stays short of the
// members, and each join puts the deadline off, so that a rebalance never ends. In such a group all static members are
// removed, else those that are not alive (by group.instance.id); live ones join again at once. It returns whom it removed.
func Evict(ctx context.Context, client *kgo.Client, group string, alive map[string]bool) ([]string, error) {
	adm := kadm.NewClient(client)
	groups, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("describe group %q: %w", group, err)
	}
	stuck := groups[group].State != "Stable"
	var gone []string
	for _, m := range groups[group].Members {
		if m.InstanceID != nil && (stuck || !alive[*m.InstanceID]) {
			gone = append(gone, *m.InstanceID)
		}
	}
	if len(gone) == 0 {
		return nil, nil
	}
	if _, err := adm.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs(gone...)); err != nil {
		return nil, fmt.Errorf("remove members of group %q: %w", group, err)
	}
	return gone, nil
}
