package main

import (
	"fmt"
	"strings"
)

// check finds values that are each allowed and wrong together. Every message names both keys and the way out.
func (s *settings) check() []error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	s.checkTimes(refuse)
	s.checkSASL(refuse)
	s.checkTLS(refuse)
	s.checkWindow(refuse)
	return problems
}

func (s *settings) checkTimes(refuse func(string, ...any)) {
	if s.HeartbeatInterval*3 > s.SessionTimeout {
		refuse("heartbeat.interval.ms: %d is more than a third of session.timeout.ms (%d): one lost heartbeat would cost the tasks; lower the first or raise the second",
			s.HeartbeatInterval.Milliseconds(), s.SessionTimeout.Milliseconds())
	}
	if s.RebalanceTimeout >= s.TransactionTimeout {
		refuse("max.poll.interval.ms: %d must be less than transaction.timeout.ms (%d): a slow rebalance would abort open transactions; lower the first or raise the second",
			s.RebalanceTimeout.Milliseconds(), s.TransactionTimeout.Milliseconds())
	}
	if s.CommitInterval*2 > s.TransactionTimeout {
		refuse("commit.interval.ms: %d is more than half of transaction.timeout.ms (%d); lower the first or raise the second",
			s.CommitInterval.Milliseconds(), s.TransactionTimeout.Milliseconds())
	}
}

func (s *settings) checkSASL(refuse func(string, ...any)) {
	if !s.usesSASL() {
		s.refuseSet(refuse, "sasl.", "security.protocol is "+s.SecurityProtocol+": write SASL_SSL, or remove the key")
		return
	}
	if s.SASLMechanism == "" {
		refuse("sasl.mechanism: missing for security.protocol %s; allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", s.SecurityProtocol)
	}
	if s.SASLJaas.isSet() {
		s.readJaas(refuse)
	}
	if s.SASLUsername == "" || !s.SASLPassword.isSet() {
		refuse("sasl.username and sasl.password: both are needed for security.protocol %s; for example sasl.password: ${env:KAFKA_PASSWORD}", s.SecurityProtocol)
	}
}

func (s *settings) readJaas(refuse func(string, ...any)) {
	if s.SASLUsername != "" || s.SASLPassword.isSet() {
		refuse("sasl.jaas.config: given together with sasl.username or sasl.password; keep one way")
		return
	}
	user, password, err := parseJaas(s.SASLJaas.reveal())
	if err != nil {
		refuse("sasl.jaas.config: %w", err)
		return
	}
	s.SASLUsername, s.SASLPassword = user, secret{&password}
}

func (s *settings) checkTLS(refuse func(string, ...any)) {
	if !s.usesTLS() {
		s.refuseSet(refuse, "ssl.", "security.protocol is "+s.SecurityProtocol+": write SSL or SASL_SSL, or remove the key")
		return
	}
	if s.TruststoreLocation != "" && s.TruststoreCertificates != "" {
		refuse("ssl.truststore.location: given together with ssl.truststore.certificates; keep one")
	}
	if s.KeystoreLocation != "" && s.KeystoreKey.isSet() {
		refuse("ssl.keystore.location: given together with ssl.keystore.key; keep one")
	}
	if s.KeystoreKey.isSet() != (s.KeystoreChain != "") {
		refuse("ssl.keystore.key and ssl.keystore.certificate.chain: one without the other; give both, or ssl.keystore.location")
	}
}

// refuseSet complains about every key with the prefix that somebody set to something else than its default: it would have no effect.
func (s *settings) refuseSet(refuse func(string, ...any), prefix, why string) {
	for _, e := range s.entries {
		if strings.HasPrefix(e.key.name, prefix) && e.raw != e.key.def {
			refuse("%s (%s): has no effect while %s", e.key.name, e.place, why)
		}
	}
}

func (s *settings) checkWindow(refuse func(string, ...any)) {
	if s.RedeliveryHorizon > s.DedupeWindow {
		refuse("dedupe.window: %s is shorter than redelivery.horizon (%s): a late duplicate would not be recognised; raise the first or lower the second",
			s.DedupeWindow, s.RedeliveryHorizon)
	}
}

func (c Config) usesTLS() bool { return strings.HasSuffix(c.SecurityProtocol, "SSL") }
func (c Config) usesSASL() bool {
	return strings.HasPrefix(c.SecurityProtocol, "SASL_")
}
