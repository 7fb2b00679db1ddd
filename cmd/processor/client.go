package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// dialTimeout bounds one connection attempt, TLS included.
const dialTimeout = 10 * time.Second

// clientOptions are the options every client of this command shares, besides the addresses: name, TLS, SASL. It reads the
// certificate files once, so that a wrong path is an error now and not a retry for ever.
func (c Config) clientOptions() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.ClientID(c.ClientID)}
	if c.usesTLS() {
		if _, err := c.tlsConfig(); err != nil {
			return nil, fail(exitUsage, err, "ssl.* files are PEM; see processor config init")
		}
		opts = append(opts, kgo.Dialer(c.dialTLS))
	}
	if c.usesSASL() {
		opts = append(opts, kgo.SASL(c.mechanism()))
	}
	return opts, nil
}

// newClient is a plain client with the connection of the configuration; extra options come last. It does no I/O.
func (c Config) newClient(extra ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.clientOptions()
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.SeedBrokers(c.BootstrapServers...))
	client, err := kgo.NewClient(append(opts, extra...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

// dialTLS reads the certificate files at every connection: a renewed certificate needs no restart.
func (c Config) dialTLS(ctx context.Context, network, host string) (net.Conn, error) {
	conf, err := c.tlsConfig()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: conf}
	return d.DialContext(ctx, network, host)
}

func (c Config) mechanism() sasl.Mechanism {
	user, password := c.SASLUsername, c.SASLPassword.reveal()
	switch c.SASLMechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	}
}

var (
	jaasModule = regexp.MustCompile(`^\s*org\.apache\.kafka\.common\.security\.(plain\.PlainLoginModule|scram\.ScramLoginModule)\s+required\s+([^;]*);?\s*$`)
	jaasOption = regexp.MustCompile(`(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')`)
	jaasEscape = regexp.MustCompile(`\\(.)`)
)

// parseJaas reads the two login modules that hold a user and a password.
func parseJaas(s string) (user, password string, err error) {
	m := jaasModule.FindStringSubmatch(s)
	if m == nil {
		return "", "", errors.New(`not a PlainLoginModule or ScramLoginModule line; write: org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`)
	}
	options := map[string]string{}
	for _, o := range jaasOption.FindAllStringSubmatch(m[2], -1) {
		options[o[1]] = jaasEscape.ReplaceAllString(o[2], "$1") + o[3]
	}
	if options["username"] == "" || options["password"] == "" {
		return "", "", errors.New(`username and password are needed, in double quotes`)
	}
	return options["username"], options["password"], nil
}
