package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Config is the whole configuration, resolved and checked. The table in keys.go says what each field means: name,
// default, limits. Nothing in it changes after loading.
type Config struct {
	ApplicationID    string
	BootstrapServers []string // host:port, at least one
	ClientID         string

	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
	SASLMechanism    string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; empty without SASL
	SASLUsername     string
	SASLPassword     secret
	SASLJaas         secret

	TokenEndpoint     string // https:// or file://; with OAUTHBEARER
	TokenClientID     string
	TokenClientSecret secret
	TokenScope        string

	TruststoreLocation     string // path of a PEM file; empty: the system's authorities
	TruststoreCertificates string // the same, inline
	KeystoreLocation       string // path of a PEM file with key and chain
	KeystoreKey            secret
	KeystoreChain          string
	EndpointIdentification string // https: the host name is checked; empty: it is not

	Threads            int // 0: one per CPU, at most one per task
	CommitInterval     time.Duration
	TransactionTimeout time.Duration
	SessionTimeout     time.Duration
	HeartbeatInterval  time.Duration
	RebalanceTimeout   time.Duration
	MaxTaskIdle        time.Duration // as in pipeline.Config
	AutoOffsetReset    string        // earliest, latest, none
	RepartitionPurge   time.Duration
	StateDir           string
	StateMemoryMax     int64 // bytes; 0: half of the machine's memory
	GroupInstanceID    string
	Partitioner        string // murmur2, crc32, fnv1a
	DrainTimeout       time.Duration

	DedupeWindow       time.Duration
	DedupeExpectedRate float64       // new ids a second; 0: measured from the input
	RedeliveryHorizon  time.Duration // 0: the input topic's retention and segment
	AutoCreate         bool

	AdminListen       string   // host:port; empty: no admin port
	ReplicationFactor int16    // -1: the broker's default
	TopicsAllow       []string // topic:key
	Production        bool
}

// secret is a text that no verb of fmt, no log and no JSON shows. reveal is its only way out.
type secret struct{ text *string }

const hidden = "(hidden)"

func (s secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}
func (s secret) isSet() bool                { return s.reveal() != "" }
func (secret) String() string               { return hidden }
func (secret) GoString() string             { return hidden }
func (secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// setting is one key's effective value and where it came from.
type setting struct {
	key   *key
	raw   string // as written, references unresolved
	place string // where it was written, for people: a flag, a variable, file:line:column, or default
}

const fromDefault = "default"

// shown is the value as it may be printed: a secret of which any part is written in clear is hidden, a reference is shown
// as a reference.
func (s setting) shown() string {
	if s.key.secret && s.raw != "" && !isOnlyReference(s.raw) {
		return hidden
	}
	return userInfo.ReplaceAllString(s.raw, "//"+hidden+"@")
}

// userInfo is a user or password inside an address, where no key wants one.
var userInfo = regexp.MustCompile(`//[^/\s]*@`)

// settings are a Config with the origin of every value.
type settings struct {
	Config
	entries []setting // in the order of the table
}

// config loads the configuration for cmd; see load.
func (c *cli) config(cmd *cobra.Command) (Config, error) {
	s, err := c.settings(cmd)
	return s.Config, err
}

// settings reads flags over PROCESSOR_* over the file over defaults. It reports every problem at once.
func (c *cli) settings(cmd *cobra.Command) (settings, error) {
	path := c.configPath(cmd)
	file, problems := readConfigFile(path)
	env, more := c.environment()
	problems = append(problems, more...)
	flags, more := changedFlags(cmd)
	problems = append(problems, more...)
	var s settings
	for i := range keys {
		k := &keys[i]
		entry := setting{key: k, raw: k.defaultValue(c), place: fromDefault}
		for _, layer := range []map[string]setting{file, env, flags} {
			if e, ok := layer[k.name]; ok {
				entry = e
			}
		}
		problems = append(problems, c.assign(&s.Config, entry)...)
		s.entries = append(s.entries, entry)
	}
	if len(problems) == 0 {
		problems = s.check()
	}
	return s, configError(problems)
}

// assign resolves, parses and stores one value.
func (c *cli) assign(cfg *Config, e setting) []error {
	text, err := c.resolve(e.raw)
	if err != nil {
		return []error{fmt.Errorf("%s (%s): %w", e.key.name, e.place, err)}
	}
	if err := e.key.set(cfg, text); err != nil {
		return []error{e.wrong(err)}
	}
	return nil
}

// wrong says which value is wrong, where it stands, what is allowed and what to write instead.
func (s setting) wrong(cause error) error {
	msg := fmt.Sprintf("%s: %s (%s): %s", s.key.name, quoteValue(s.shown()), s.place, cause)
	if s.key.limit != "" {
		msg += "; allowed: " + s.key.limit
	}
	if s.key.example != "" {
		msg += fmt.Sprintf("; for example %s: %s", s.key.name, s.key.example)
	}
	return errors.New(msg)
}

func quoteValue(s string) string {
	if s == hidden {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// configError joins the problems into one error with exit code 2.
func configError(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	const hint = "processor config init writes a file that explains every key; processor config show tells where each value comes from"
	if len(problems) == 1 {
		return fail(exitUsage, fmt.Errorf("configuration: %w", problems[0]), hint)
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = "- " + p.Error()
	}
	return fail(exitUsage, fmt.Errorf("configuration: %d problems\n%s", len(problems), strings.Join(lines, "\n")), hint)
}
