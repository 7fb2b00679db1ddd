// Command job is this project's ledger as a user's own program embeds it, with the defaults of the processor command.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tallystick/tallystick/bench/profile"
	"github.com/tallystick/tallystick/ledger/topology"
	"github.com/tallystick/tallystick/pipeline"
)

func main() {
	var (
		brokers = flag.String("brokers", "", "addresses, separated by commas")
		app     = flag.String("app", "ledger", "application.id")
		dir     = flag.String("state-dir", "", "state.dir")
		workers = flag.Int("workers", 1, "num.stream.threads")
		cpu     = flag.String("cpuprofile", "", "file")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := profile.Start(*cpu)
	if err != nil {
		log.Fatal(err)
	}
	config := pipeline.Config{
		Brokers: strings.Split(*brokers, ","), StateDir: *dir, Workers: *workers,
		ExpectedRate: 10, // the input came at once: two weeks at the rate of its last hour would need a larger machine
	}
	processor, err := pipeline.NewProcessor(config, topology.Ledger(*app, topology.Config{AutoCreate: true}))
	if err == nil {
		err = processor.Run(ctx)
	}
	done()
	if err != nil {
		log.Fatal(err)
	}
}
