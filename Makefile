# make quick between commits; make check is what CI runs. The suites and their limits are in .ci/suites.

.PHONY: quick check test simulate mutants kafka containers lint bench hotpath

quick: ## format, vet and the tests, at most 4 minutes
	.ci/run static unit

check: ## everything that CI runs, at most 50 minutes
	.ci/run

test: ## the hermetic tests, from the test cache where nothing changed
	go test ./...

SEEDS ?= 20
SEED0 ?= 1
simulate: ## seeded fault runs: SEEDS=how many, from SEED0
	SEEDS=$(SEEDS) SEED0=$(SEED0) go test -tags synctests -count=1 -timeout 60m -run 'TestSeeds$$' -v ./internal/simulation

mutants: ## each sabotage of the engine must be caught; MUTANT=name for one
	.ci/run mutants

kafka: ## a real Apache Kafka under kills and freezes
	.ci/run kafka

containers: ## the command against Apache Kafka in a container; starts an engine where none answers (root, Debian)
	.ci/run containers

lint: ## golangci-lint, floors, documentation, guarantees
	.ci/run lint

bench: ## the ledger against a loop written by hand, on one real broker (bench/README.md)
	KAFKA_LIBS=$$(integration/kafka-libs.sh) && export KAFKA_LIBS && cd bench && go run .

hotpath: ## the hot path alone, with allocations
	go test -run '^$$' -bench . -benchmem ./pipeline ./state ./record ./ledger/...
