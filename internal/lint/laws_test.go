package lint

// law is what one package may import. A package without a law fails: it exists only if it has an import law of its own.
type law struct {
	dir    string
	floor  int
	ours   []string // packages of this module; "*" = everything on a lower floor
	beside []string // packages on the same floor, the exception that the reason explains
	third  []string // import paths of other modules, with all below them; test files may use testLibraries too
	pure   bool     // clock, randomness, files, network and locks are parameters or do not occur
	reason string
}

const (
	kgo   = "github.com/twmb/franz-go/pkg/kgo"
	kadm  = "github.com/twmb/franz-go/pkg/kadm"
	kmsg  = "github.com/twmb/franz-go/pkg/kmsg"
	kerr  = "github.com/twmb/franz-go/pkg/kerr"
	kfake = "github.com/twmb/franz-go/pkg/kfake"
	// kafka is what every Kafka client's import path begins with here.
	kafka  = "github.com/twmb/franz-go"
	xxhash = "github.com/cespare/xxhash/v2"
	jsonV2 = "github.com/go-json-experiment/json"
	tokens = jsonV2 + "/jsontext"
	mutant = "internal/mutant"
)

// testLibraries are for test files of any package: models, and a second opinion on hashes of our own.
var testLibraries = []string{"pgregory.net/rapid", xxhash}

// laws is the table of the floors, lowest first. An import points down; what points sideways is listed as such.
var laws = []law{
	{dir: "internal/mutant", floor: 0, reason: "every engine package asks it, so it can know none of them"},

	{dir: "internal/evidence", floor: 0, reason: "names what was tested and keeps what came of it: it reads the tree as text, the standard library alone"},

	{dir: "record", floor: 1, third: []string{jsonV2}, pure: true,
		reason: "the vocabulary of all others: codecs and positions, without a store or a broker"},
	{dir: "ledger/money", floor: 1, third: []string{"github.com/quagmt/udecimal"}, pure: true,
		reason: "the decimal library stays behind one opaque type and can be exchanged"},
	{dir: "ledger", floor: 1, beside: []string{"ledger/money"}, third: []string{"golang.org/x/text"}, pure: true,
		reason: "the domain is a function of state and event; money is its vocabulary"},
	{dir: "ledger/generate", floor: 1, beside: []string{"ledger", "ledger/money"},
		reason: "makes events of the domain from a seed, for feed, demo and simulation"},
	{dir: "internal/verify", floor: 1, third: []string{kgo, kadm, kmsg, kerr, "golang.org/x/text/unicode/norm", tokens},
		reason: "a checker that shares code with the processor shares its mistakes; both take from libraries only what is JSON and what is NFC"},

	{dir: "state", floor: 2, ours: []string{mutant, "record"}, third: []string{xxhash}, pure: true,
		reason: "never sees Kafka: a base is tested, snapshotted and exchanged without a broker"},
	{dir: "topics", floor: 2, ours: []string{"record"}, third: []string{kgo, kadm, kmsg, kerr},
		reason: "what topics are and should be; the plan is pure and only the adapter asks a broker"},
	{dir: "internal/session", floor: 2, ours: []string{mutant, "record"}, beside: []string{"topics"}, third: []string{kgo, kadm, kmsg, kerr, "golang.org/x/sys"},
		reason: "the one place that speaks the transaction protocol; it moves bytes and knows no store"},

	{dir: "internal/connect", floor: 2, third: []string{kgo, kmsg, kerr, kafka + "/pkg/kversion", kafka + "/pkg/sasl"},
		reason: "how a broker is reached and trusted, and why it is not: it knows no topic, no group and no job"},

	{dir: "pipeline", floor: 3, ours: []string{mutant, "record", "topics", "state", "internal/session"}, third: []string{kgo, xxhash},
		reason: "declares, processes, decides; the client is the session's, options for it are only passed through"},

	{dir: "internal/devbroker", floor: 4, third: []string{kafka},
		reason: "the embedded broker is for the demo and for tests: no engine package may lean on it"},
	{dir: "internal/faultnet", floor: 4, third: []string{kmsg},
		reason: "the one network that loses requests, for simulation and users' crash tests: it sees frames and knows nothing of ours"},
	{dir: "ledger/topology", floor: 4, ours: []string{"record", "ledger", "ledger/money", "topics", "state", "pipeline"}, third: []string{jsonV2},
		reason: "the ledger stands on the engine's exported API, as any user's job does"},
	{dir: "stream", floor: 4, ours: []string{"record", "topics", "state", "pipeline"},
		reason: "the DSL stands on the engine's exported API, so that it can do nothing that a user's handler could not"},
	{dir: "pipelinetest", floor: 4, ours: []string{"record", "topics", "state", "internal/session", "pipeline"}, beside: []string{"internal/devbroker", "internal/faultnet"}, third: []string{kgo, kadm, kmsg, kerr},
		reason: "users' tests: a driver on the exported API; and crash points on the embedded broker, whose topics it fills, fences (session.Fence) and reads itself"},
	{dir: "internal/simulation", floor: 4, ours: []string{"*"}, beside: []string{"internal/devbroker", "internal/faultnet", "ledger/topology", "pipelinetest"}, third: []string{kafka},
		reason: "tests only: the whole of it under seeded faults, judged by internal/verify"},
	{dir: "internal/simulation/worlds", floor: 1, ours: []string{"internal/evidence"},
		reason: "what the simulation counted, for programs: they must not link the simulation"},
	{dir: "internal/simulation/summary", floor: 5, ours: []string{"internal/evidence", "internal/simulation/worlds"},
		reason: "merges files of results: wiring"},

	{dir: "cmd/processor", floor: 5, ours: []string{"*"}, third: []string{
		kgo, kadm, kmsg, kerr, kafka + "/pkg/sasl", tokens, "github.com/spf13", "github.com/goccy/go-yaml", "github.com/jedib0t/go-pretty/v6", "github.com/vbauerster", "golang.org/x/sys"},
		reason: "wiring, flags, signals and exit codes: the only one that speaks to people"},

	{dir: "internal/lint", floor: 6, reason: "reads the tree as text, so that it works while the tree does not compile"},
	{dir: ".ci/suites", floor: 6, reason: "runs before anything is known to build: the standard library alone"},
	{dir: "integration/containers", floor: 6, ours: []string{"*"}, third: []string{kafka, "github.com/testcontainers/testcontainers-go"},
		reason: "the one place that knows containers: everything else on a real broker runs without an engine"},
	{dir: "examples/...", floor: 6, ours: []string{"record", "state", "topics", "pipeline", "stream", "pipelinetest"}, third: []string{kgo},
		reason: "what the documentation shows: a user's program, with nothing that a user could not import"},
	{dir: "bench/...", floor: 7, ours: []string{"*"}, third: []string{kafka},
		reason: "a Go module of its own: users' programs and their rivals, and who compares them"},
	{dir: "replay", floor: 6, ours: []string{"internal/evidence", "internal/simulation/worlds"}, third: []string{"github.com/tetratelabs/wazero"},
		reason: "a Go module of its own: runs the compiled simulation as a guest and links nothing of it"},
	{dir: "integration/...", floor: 6, ours: []string{"*"}, third: []string{kafka},
		reason: "a Go module of its own: what real brokers need never enters a user's dependency graph"},
}

// engine is what must still build when ledger/ is deleted, tests included.
var engine = []string{"record", "state", "topics", "internal/session", "internal/mutant", "internal/devbroker", "internal/faultnet", "pipeline", "pipelinetest", "stream"}

// passedThrough is all that pipeline may name of the Kafka client, and why; its file optionNames may name any option, to
// refuse it. The client belongs to internal/session: who polls, produces, commits or fences elsewhere goes around tokens and
// proofs.
var passedThrough = map[string]string{
	"Opt":                 "users' options, handed on",
	"Record":              "what the session polls and produces",
	"RecordHeader":        "what the session polls and produces",
	"Fetches":             "what the session polls",
	"FetchTopicPartition": "what the session polls",
	"ErrGroupSession":     "what the session's poll reports",
	"ErrDataLoss":         "what the session's poll reports",
	"Client":              "the process's admin client, handed to session and topics",
	"NewClient":           "the process's admin client",
	"SeedBrokers":         "of the admin client",
	"ClientID":            "of the admin client",
	"MetadataMinAge":      "of the admin client",
}

const optionNames = "pipeline/config.go"

// impure names what a pure package gets as a parameter instead.
var impure = []string{"os", "net", "math/rand", "crypto/rand", "sync", "log", "syscall"}
