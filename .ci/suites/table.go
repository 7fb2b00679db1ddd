package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"time"
)

// suite is one row of the report.
type suite struct {
	name  string
	what  string
	limit time.Duration // over all steps; beyond it the suite's processes are killed
	show  bool          // print what the tests log, not only what fails
	steps []step
	must  []string  // "folder" or "folder.TestName", from the root of the tree: each must have run at least one test
	skips []covered // the only tests that may be skipped here
}

// step is one command of a suite. Its environment is that of this process and env.
type step struct {
	dir    string
	env    []string
	argv   []string
	events bool // it prints go test's events; another command counts as one check
}

// covered is a skip that loses nothing: another suite of the same run has the test.
type covered struct {
	test   string // "folder.TestName"
	by     string // the suite that must have run it, or its counterpart
	reason string
}

// race covers what shares memory between goroutines: the engine.
var race = []string{"./pipeline", "./internal/session", "./state", "./topics"}

// fixedSeeds is how many seeds, from 1, every run repeats.
const fixedSeeds = "500"

// linter is set by .ci/run, which installs the pinned version.
const linter = "golangci-lint"

func suites() []suite { return append(hermetic(), onKafka()...) }

// hermetic are the suites that need no broker.
func hermetic() []suite {
	return []suite{
		{name: "static", what: "format; vet with every build tag and for every system", limit: 8 * time.Minute, steps: []step{
			{argv: []string{"sh", "-c", `bad=$(gofmt -l $(git ls-files '*.go')); test -z "$bad" || { echo "gofmt would change:"; echo "$bad"; exit 1; }`}},
			{argv: []string{"go", "vet", "./...", "./.ci/suites"}},
			{argv: []string{"go", "vet", "-tags", "synctests mutants transcript", "./..."}},
			{dir: "integration", argv: []string{"go", "vet", "./..."}},
			{dir: "bench", argv: []string{"go", "vet", "./..."}},
			{dir: "replay", argv: []string{"go", "vet", "./..."}},
			// What nobody here runs must at least compile, tests included. The tests on a real broker want POSIX signals.
			on("darwin", step{argv: []string{"go", "vet", "./..."}}),
			on("darwin", step{dir: "integration", argv: []string{"go", "vet", "./..."}}),
			on("windows", step{argv: []string{"go", "vet", "./..."}}),
			on("darwin", step{argv: []string{"go", "build", "-o", os.DevNull, "./cmd/processor"}}),
			on("windows", step{argv: []string{"go", "build", "-o", os.DevNull, "./cmd/processor"}}),
		}},
		{name: "unit", what: "the README's command: go test ./...", limit: 6 * time.Minute,
			steps: []step{test("4m", "./..."), test("1m", "./.ci/suites")},
			must:  []string{"record", "state", "topics", "pipeline", "stream", "examples/shop", "ledger", "ledger/topology", "internal/session", "internal/verify", "internal/lint", "cmd/processor", "internal/mutant.TestReleaseHasNoMutant", "internal/mutant.TestEveryMutantHasATest"},
			skips: []covered{{"internal/simulation.TestSimulation", "simulation", "the client's mutexes need the tag synctests in a bubble"}},
		},
		{name: "race", what: "the engine under the race detector", limit: 8 * time.Minute,
			steps: []step{test("6m", append([]string{"-race"}, race...)...)},
			must:  []string{"pipeline", "internal/session", "state", "topics"},
		},
		{name: "lint", what: "golangci-lint over all modules; the floors, documentation and guarantees", limit: 6 * time.Minute,
			steps: []step{
				{argv: []string{linter, "run", "./..."}},
				{argv: []string{linter, "run", "./.ci/suites"}},
				{argv: []string{linter, "run", "--build-tags", "synctests,mutants,transcript", "./internal/mutant", "./internal/simulation", "./internal/lint"}},
				{dir: "integration", argv: []string{linter, "run", "--config", "../.golangci.yml", "./..."}},
				{dir: "bench", argv: []string{linter, "run", "--config", "../.golangci.yml", "./..."}},
				{dir: "replay", argv: []string{linter, "run", "--config", "../.golangci.yml", "./..."}},
				test("2m", "./internal/lint"),
			},
			must: []string{"internal/lint.TestEveryPackageHasAnImportLawAndKeepsIt", "internal/lint.TestGuaranteesAndTestsNameEachOther"},
		},
		{name: "transcript", what: "the README's commands print what it shows", limit: 3 * time.Minute,
			steps: []step{test("2m", "-tags", "transcript", "-run", "TestReadmeTranscript", "./internal/lint")},
			must:  []string{"internal/lint.TestReadmeTranscript"},
		},
		{name: "simulation", what: "seeded faults and exhaustive crash points in bubbles", limit: 15 * time.Minute, show: true,
			steps: []step{
				// Fixed seeds first: they tell whether a change broke something. Then some that no commit had before.
				// TestRecordARun makes test data, when asked to.
				with(test("12m", "-tags", "synctests", "-skip", "^TestRecordARun$", "./internal/simulation"), "SEEDS="+fixedSeeds),
				with(test("2m", "-tags", "synctests", "-run", "TestSeeds", "./internal/simulation"), "SEEDS=20", "SEED0="+seedOf(commit())),
			},
			must: []string{"internal/simulation.TestSeeds", "internal/simulation.TestSeedsOfTwoInputs", "internal/simulation.TestEveryCrashPoint", "internal/simulation.TestEveryCrashPointOfTwoInputs", "internal/simulation.TestScenarios"},
		},
		{name: "replay", what: "interesting seeds, replayed exactly", limit: 10 * time.Minute, show: true,
			steps: []step{inDir("replay", test("9m", "./..."))},
			must:  []string{"replay.TestReplays", "replay.TestTheCorpusHasOfEachJobAndPoint"},
		},
		{name: "mutants", what: "each sabotage of the engine is caught", limit: 6 * time.Minute, show: true,
			steps: []step{test("5m", "-parallel", "4", "-tags", "synctests mutants", "-run", "TestMutants", "./internal/mutant", "./pipelinetest")},
			must:  []string{"internal/mutant.TestMutants", "pipelinetest.TestMutantsOfTheEngineDoNotPassCrash"},
		},
	}
}

// onKafka are the suites on a real Apache Kafka.
func onKafka() []suite {
	return []suite{
		{name: "kafka", what: "a real Apache Kafka: kills, freezes, broker loss, a full disk", limit: 10 * time.Minute, show: true,
			steps: []step{kafka(test("9m", "-p=1", "./kafkatest", "./jobtest", "./broker", "./faults", "./inputs"))},
			must:  []string{"integration/kafkatest", "integration/jobtest", "integration/broker", "integration/faults.TestLedgerSurvivesFaults", "integration/faults.TestLedgerSurvivesAFullDisk", "integration/inputs.TestTwoInputsSurviveKillsAndRebalances"},
		},
		{name: "unknown", what: "a real Apache Kafka: transactions whose end is in doubt, state that comes later than its offsets", limit: 8 * time.Minute, show: true,
			steps: []step{kafka(test("7m", "./unknown"))},
			must: []string{"integration/unknown.TestANewOwnerWaitsForTheStateThatBelongsToTheOffsets", "integration/unknown.TestNothingGoesWrongUnderChurnWithLateMarkers",
				"integration/unknown.TestWhatIsConcludedOfADoubtfulCommitIsTrue", "integration/unknown.TestWhatIsConcludedWhenTheCoordinatorIsLostInACommitIsTrue"},
		},
		{name: "liveness", what: "a restart, a fenced take-over and the loss of a broker, each against its bound", limit: 3 * time.Minute, show: true,
			steps: []step{kafka(test("170s", "-run", "TestTheLongestGap|TestARestarted|TestAFenced|AfterABrokerIsReplaced", "./soak"))},
			must: []string{"integration/soak.TestARestartedInstanceIsBackWithinHalfItsSession", "integration/soak.TestAFencedInstanceIsReplacedWithinHalfItsSession",
				"integration/soak.TestTheJobIsWholeHalfATransactionTimeOutAfterABrokerIsReplaced"},
		},
		{name: "campaign", what: "seeded faults of every kind on three brokers, judged as a whole", limit: 9 * time.Minute, show: true,
			steps: []step{with(kafka(test("8m", "./campaign/...")), "CAMPAIGN_FAULTS=60", "CAMPAIGN_SEED=1")},
			must:  []string{"integration/campaign.TestCampaign", "integration/campaign.TestTasksThatMovedWhenEverybodyWasKilledAreGivenOutAgain", "integration/campaign/results"},
		},
		{name: "operator", what: "an operator in trouble on a real Apache Kafka: every way out of the command", limit: 8 * time.Minute,
			steps: []step{kafka(test("7m", "./operator"))},
			must: []string{"integration/operator.TestADeadLetterIsRedrivenAfterTheFixAndAppliedOnce", "integration/operator.TestAResetOfALiveGroupIsRefusedAndNamesItsMembers",
				"integration/operator.TestFenceHandsTheTasksOfADeadInstanceOver", "integration/operator.TestAMissingRightIsNamed"},
		},
		{name: "audit", what: "verify beside a job on a real Apache Kafka: rounds, baselines over retention, torn transactions", limit: 5 * time.Minute,
			steps: []step{kafka(test("4m", "./audit"))},
			must: []string{"integration/audit.TestAnAuditFollowsAJobThatIsKilledAndGoesOnWhereRetentionTookItsInputs",
				"integration/audit.TestAnUpstreamTransactionTornByAToolIsFoundWithBothMarkers", "integration/audit.TestAJobsTransactionTornByAToolIsFoundWithBothMarkers"},
		},
		{name: "security", what: "TLS, logins and rights on a real Apache Kafka", limit: 6 * time.Minute,
			steps: []step{kafka(test("5m", "./security"))},
			must:  []string{"integration/security"},
		},
		{name: "bench", what: "a small round of the comparison: outputs and report, no speed", limit: 5 * time.Minute,
			steps: []step{inDir("bench", kafka(test("4m", "./...")))},
			must:  []string{"bench.TestASmallRoundIsRightAndReportsEveryProgram"},
		},
		// Last: an engine that has to be started for it changes the machine's network until it ends.
		{name: "containers", what: "the command against Apache Kafka in a container", limit: 5 * time.Minute, show: true,
			steps: []step{engine(kafka(test("4m", "./containers")))},
			must:  []string{"integration/containers.TestTheCommandRunsOnKafkaInAContainer"},
		},
	}
}

// test is a go test step that reports every test as JSON. Nothing is taken from the test cache.
func test(limit string, args ...string) step {
	return step{events: true, argv: append([]string{"go", "test", "-json", "-count=1", "-timeout=" + limit}, args...)}
}

// with adds to a step's environment.
func with(s step, env ...string) step {
	s.env = append(s.env, env...)
	return s
}

// on runs a step for another operating system than this one, without C.
func on(system string, s step) step {
	return with(s, "GOOS="+system, "CGO_ENABLED=0")
}

// seedOf makes a first seed from a commit, far from the fixed ones.
func seedOf(commit string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(commit))
	return fmt.Sprint(100_000 + h.Sum32()%1_000_000)
}

// inDir moves a step to the module in a folder.
func inDir(dir string, s step) step {
	s.dir = dir
	return s
}

// engine runs a step with a container engine and an image of Kafka.
func engine(s step) step {
	s.argv = append([]string{"../.ci/engine"}, s.argv...)
	return s
}

// kafka runs a step in the integration module, where a missing broker is then a failure and not a skip.
func kafka(s step) step {
	s.dir = "integration"
	return with(s, "KAFKA_REQUIRED=1")
}
