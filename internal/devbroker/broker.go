package devbroker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// neverClean keeps the log cleaner asleep: kfake's compaction runs past open transactions and can lose committed keys.
const neverClean = "31536000000"

// Options of a broker. The zero value is one broker on a free port.
type Options struct {
	// Brokers is how many brokers the cluster has, 0 = 1. New topics get min(3, Brokers) replicas, in name only.
	Brokers int
	// Ports to listen on, one per broker; empty = free ports. It overrides Brokers.
	Ports []int
	// MinSessionTimeout is the shortest session that a group may ask for. 0 = 6 s, as Kafka.
	MinSessionTimeout time.Duration
}

// Broker is a running cluster. Close it.
type Broker struct {
	cluster *kfake.Cluster
	addrs   []string // kept, because a closed cluster does not answer
}

// Start listens on the loopback interface and returns when the cluster answers. Topics are made by request only: a client that
// names an unknown topic is told so, as on a production cluster.
func Start(o Options) (*Broker, error) {
	opts := []kfake.Opt{
		kfake.NumBrokers(max(o.Brokers, 1)),
		kfake.ClusterID("tallystick-devbroker"),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": neverClean}),
	}
	if len(o.Ports) > 0 {
		opts = append(opts, kfake.Ports(o.Ports...))
	}
	if o.MinSessionTimeout > 0 {
		opts = append(opts, kfake.GroupMinSessionTimeout(o.MinSessionTimeout))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w; choose other ports, or none for free ones", err)
	}
	return &Broker{cluster, cluster.ListenAddrs()}, nil
}

// Addrs are the brokers' addresses, host:port, fit for bootstrap.servers, also after Close. The slice is the caller's.
func (b *Broker) Addrs() []string { return slices.Clone(b.addrs) }

// String is Addrs in one string, separated by commas.
func (b *Broker) String() string { return strings.Join(b.Addrs(), ",") }

// Cluster gives tests what a real broker does not offer: faults, moved leaders, closed connections.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Close ends the cluster and forgets everything. Clients see their connections drop. A second call does nothing.
func (b *Broker) Close() { b.cluster.Close() }
