package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupMember is a member of the job's group as its coordinator names it. A killed process stays a member until its session
// is over.
type groupMember struct {
	Instance string `json:"group_instance_id,omitempty"` // empty: a member without a fixed name
	ClientID string `json:"client_id"`
	Host     string `json:"host"`
	MemberID string `json:"member_id"`
}

func (m groupMember) String() string {
	name := "member " + m.MemberID
	if m.Instance != "" {
		name = m.Instance
	}
	return fmt.Sprintf("%s (client %s, host %s)", name, m.ClientID, strings.TrimPrefix(m.Host, "/"))
}

// groupMembers lists the members of a group; none when it does not exist.
func groupMembers(ctx context.Context, client *kgo.Client, group string) ([]groupMember, error) {
	g, err := describeGroup(ctx, client, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("members of group %s: %w", group, err)
	}
	var out []groupMember
	for _, m := range g.Members {
		g := groupMember{ClientID: m.ClientID, Host: m.ClientHost, MemberID: m.MemberID}
		if m.InstanceID != nil {
			g.Instance = *m.InstanceID
		}
		out = append(out, g)
	}
	return out, nil
}

// describeGroup tries again while a coordinator is being found.
func describeGroup(ctx context.Context, client *kgo.Client, group string) (kadm.DescribedGroup, error) {
	for {
		all, err := kadm.NewClient(client).DescribeGroups(ctx, group)
		if err == nil {
			err = all[group].Err
		}
		if err == nil || !kerr.IsRetriable(err) || sleep(ctx, 100*time.Millisecond) != nil {
			return all[group], err
		}
	}
}

// listMembers is one line for each, indented under a message.
func listMembers(members []groupMember) string {
	var b strings.Builder
	for _, m := range members {
		b.WriteString("\n- " + m.String())
	}
	return b.String()
}

// splitWorker takes <instance>-<worker> apart, the form of group.instance.ids and of the ends of transactional ids.
func splitWorker(name string) (instance string, worker int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[i+1:], 10, 16)
	return name[:i], int(n), err == nil && strconv.FormatUint(n, 10) == name[i+1:]
}
