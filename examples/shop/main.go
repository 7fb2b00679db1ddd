// Command shop is the pipeline of docs/library.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/pipeline"
	"github.com/tallystick/tallystick/topics"
)

func main() {
	brokers := flag.String("brokers", "localhost:9092", "Kafka's addresses, host:port, separated by commas")
	create := flag.Bool("create-topics", false, "make the topics that are missing, and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := process
	if *create {
		run = createTopics
	}
	if err := run(ctx, strings.Split(*brokers, ","), totalPerCustomer("shop")); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// process runs until ctx ends: then it commits what is done, and leaves the group.
func process(ctx context.Context, brokers []string, p *pipeline.Pipeline) error {
	return pipeline.Run(ctx, pipeline.Config{Brokers: brokers, Logger: slog.Default()}, p)
}

// createTopics makes inputs, outputs, state and dead letters as the pipeline needs them, and refuses those that are there and
// would break it.
func createTopics(ctx context.Context, brokers []string, p *pipeline.Pipeline) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	steps, err := topics.NewAdmin(client).Apply(ctx, p.Topics(), topics.Rules{Partitions: 4})
	for _, s := range steps {
		fmt.Println(s.Topic, s.Action, s.Partitions)
		for _, r := range s.Reasons {
			fmt.Printf("  %s: %s: %s; %s\n", r.Level, r.Key, r.Cause, r.Remedy)
		}
	}
	return err
}
