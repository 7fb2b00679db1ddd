# make quick between commits; make check is what CI runs. The suites and their limits are in .ci/suites.

.PHONY: quick check test simulate simulate-summary replay replay-corpus replay-renew replay-pick mutants kafka containers lint bench hotpath campaign campaign-summary soak

quick: ## format, vet and the tests, at most 4 minutes
	.ci/run static unit

check: ## everything that CI runs; its budget is 45 minutes
	.ci/run

test: ## the hermetic tests, from the test cache where nothing changed
	go test ./...

SEEDS ?= 20
SEED0 ?= 1
RESULTS ?=
simulate: ## seeded fault runs: SEEDS=how many, from SEED0; RESULTS=file keeps each one, and the same command goes on after an interruption
	SEEDS=$(SEEDS) SEED0=$(SEED0) RESULTS=$(abspath $(RESULTS)) GOGC=400 go test -tags synctests -count=1 -timeout 0 -run 'TestSeeds' -v ./internal/simulation

simulate-summary: ## the tables of docs/verification.md, from RESULTS="files" of one engine and judge
	@go run ./internal/simulation/summary $(RESULTS)

SEED ?= 1
JOB ?= ledger
SCHEDULE ?= 1
SCHEDULES ?= 1
replay: ## a seed exactly, each byte the same: SEED= JOB=ledger|TwoInputs|TwoHops; TWICE=1 proves it; SCHEDULES=n looks for one that fails, from SCHEDULE
	cd replay && go run . -seed $(SEED) -job "$(JOB)" -schedule $(SCHEDULE) -schedules $(SCHEDULES) $(if $(TWICE),-twice)

FAULTS ?= 60
campaign campaign-summary: files = $(abspath $(or $(RESULTS),campaign.jsonl))
campaign: ## faults on a real three-broker Kafka: FAULTS=how many of SEED, results appended to RESULTS (campaign.jsonl); goes on where it ended
	cd integration && KAFKA_LIBS=$$(./kafka-libs.sh) CAMPAIGN_FAULTS=$(FAULTS) CAMPAIGN_SEED=$(SEED) CAMPAIGN_RESULTS=$(files) \
		go test -count=1 -timeout 24h -run 'TestCampaign$$' -v ./campaign

campaign-summary: ## the table of RESULTS, one or more files of one engine and judge; fails when they are no whole campaign, unless PARTIAL=1
	cd integration && go run ./campaign/summary $(if $(PARTIAL),-partial) $(files)

replay-corpus: ## the interesting seeds that CI replays
	cd replay && go run . -corpus

replay-renew: ## finds other lives for the entries of replay/corpus.jsonl that have lost their point
	cd replay && go run . -renew

replay-pick: ## chooses replay/corpus.jsonl anew, from RESULTS of make simulate
	cd replay && go run . -pick $(abspath $(RESULTS))

mutants: ## each sabotage of the engine must be caught; MUTANT=name for one
	.ci/run mutants

kafka: ## a real Apache Kafka under kills and freezes
	.ci/run kafka

soak: ## how long the job stands still after each fault, on three brokers: 10 minutes, with a dated summary
	mkdir -p build
	f=$$PWD/build/soak-$$(date -u +%F)-$$(git rev-parse --short=12 HEAD).md && export KAFKA_LIBS=$$(integration/kafka-libs.sh) && \
	{ echo "Measured $$(date -u '+%F %H:%M') UTC at commit $$(git describe --always --dirty --abbrev=12), $$(nproc) processors, load $$(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null)."; echo; \
	  echo '| fault | settings | test | whole again after | readers stood still | bound |'; echo '|---|---|---|---|---|---|'; } > $$f && \
	cd integration && SOAK=1 SOAK_SUMMARY=$$f go test -count=1 -timeout 20m -v -run "$${RUN:-.}" ./soak; s=$$?; cat $$f; exit $$s

containers: ## the command against Apache Kafka in a container; starts an engine where none answers (root, Debian)
	.ci/run containers

lint: ## golangci-lint, floors, documentation, guarantees
	.ci/run lint

bench: ## the ledger against a loop written by hand, on one real broker (bench/README.md)
	KAFKA_LIBS=$$(integration/kafka-libs.sh) && export KAFKA_LIBS && cd bench && go run .

hotpath: ## the hot path alone, with allocations
	go test -run '^$$' -bench . -benchmem ./pipeline ./state ./record ./ledger/...
