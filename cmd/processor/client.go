package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tallystick/tallystick/internal/connect"
)

// checkLimit bounds the look at the brokers before a command begins. A broker that hangs costs all of it.
const checkLimit = 12 * time.Second

// connection is how the configuration reaches the brokers. It reads the certificate files, so that a wrong path is an error
// now and not a retry for ever. log is told of files and tokens that could not be renewed.
func (c Config) connection(log *slog.Logger) (connect.Settings, error) {
	s := connect.Settings{Brokers: c.BootstrapServers, ClientID: c.ClientID, User: c.SASLUsername}
	if c.usesTLS() {
		var err error
		s.TLS, err = connect.NewTLS(connect.Certificates{
			TrustFile: c.TruststoreLocation, TrustPEM: c.TruststoreCertificates,
			OwnFile: c.KeystoreLocation, OwnChain: c.KeystoreChain, OwnKey: c.KeystoreKey.reveal(),
			AnyName: c.EndpointIdentification == "", Log: log,
		})
		if err != nil {
			return s, fail(exitUsage, err, "ssl.* files are PEM; see processor config init")
		}
	}
	if c.usesSASL() {
		s.Login = c.mechanism(log)
	}
	return s, nil
}

// clientOptions are the options every client of this command shares: addresses, name, TLS, SASL.
func (c Config) clientOptions(log *slog.Logger) ([]kgo.Opt, error) {
	s, err := c.connection(log)
	if err != nil {
		return nil, err
	}
	return s.Options(), nil
}

// newClient is a plain client with the connection of the configuration; extra options come last. It does no I/O.
func (c Config) newClient(extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.clientOptions(nil)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

// open is newClient after a look at the brokers: what keeps every request from being answered is known before the first one,
// for certain, and is not retried.
func (c Config) open(ctx context.Context, extra ...kgo.Opt) (*kgo.Client, error) {
	if err := c.reachable(ctx); err != nil {
		return nil, err
	}
	return c.newClient(extra...)
}

// reachable is nil when a broker can be used with the configuration, else the reason.
func (c Config) reachable(ctx context.Context) error {
	s, err := c.connection(nil)
	if err != nil {
		return err
	}
	return faultError(s.Check(ctx, checkLimit))
}

// faultError gives a fault its exit code, and its remedy as the hint.
func faultError(err error) error {
	f := connect.FaultOf(err)
	if f == nil {
		return err
	}
	return fail(faultCode(f), err, f.Remedy)
}

func faultCode(f *connect.Fault) exitCode {
	if f.Passes() {
		return exitUnavailable
	}
	return exitFailed
}

func (c Config) mechanism(log *slog.Logger) sasl.Mechanism {
	user, password := c.SASLUsername, c.SASLPassword.reveal()
	switch c.SASLMechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	case oauthBearer:
		return connect.NewOAuth(connect.Grant{Endpoint: c.TokenEndpoint, ClientID: c.TokenClientID, ClientSecret: c.TokenClientSecret.reveal(), Scope: c.TokenScope,
			TrustFile: c.TruststoreLocation, TrustPEM: c.TruststoreCertificates, Log: log})
	default:
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
}

const oauthBearer = "OAUTHBEARER"

var (
	jaasModule = regexp.MustCompile(`^\s*org\.apache\.kafka\.common\.security\.(plain\.PlainLoginModule|scram\.ScramLoginModule|oauthbearer\.OAuthBearerLoginModule)\s+required\s+([^;]*);?\s*$`)
	jaasOption = regexp.MustCompile(`(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')`)
	jaasEscape = regexp.MustCompile(`\\(.)`)
)

// parseJaas reads the three login modules that hold who we are and what proves it.
func parseJaas(s string) (module string, options map[string]string, err error) {
	m := jaasModule.FindStringSubmatch(s)
	if m == nil {
		return "", nil, errors.New(`not a PlainLoginModule, ScramLoginModule or OAuthBearerLoginModule line; write: org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`)
	}
	options = map[string]string{}
	for _, o := range jaasOption.FindAllStringSubmatch(m[2], -1) {
		options[o[1]] = jaasEscape.ReplaceAllString(o[2], "$1") + o[3]
	}
	_, module, _ = strings.Cut(m[1], ".")
	return module, options, nil
}
