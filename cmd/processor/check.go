package main

import (
	"cmp"
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
		refuse("sasl.mechanism: missing for security.protocol %s; allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER", s.SecurityProtocol)
	}
	if s.SASLJaas.isSet() {
		s.readJaas(refuse)
	}
	if s.SASLMechanism == oauthBearer {
		s.checkToken(refuse)
		return
	}
	s.refuseSet(refuse, "sasl.oauthbearer.", "sasl.mechanism is "+s.SASLMechanism+": write OAUTHBEARER, or remove the key")
	if s.SASLUsername == "" || !s.SASLPassword.isSet() {
		refuse("sasl.username and sasl.password: both are needed for security.protocol %s; for example sasl.password: ${env:KAFKA_PASSWORD}", s.SecurityProtocol)
	}
}

// checkToken wants one way to a token: a file, or an endpoint with the client's credentials.
func (s *settings) checkToken(refuse func(string, ...any)) {
	for _, key := range []string{"sasl.username", "sasl.password"} {
		s.refuseSet(refuse, key, "sasl.mechanism is OAUTHBEARER: remove the key")
	}
	credentials := s.TokenClientID != "" || s.TokenClientSecret.isSet()
	switch {
	case s.TokenEndpoint == "":
		refuse("sasl.oauthbearer.token.endpoint.url: missing for sasl.mechanism OAUTHBEARER; write the https:// address of the token endpoint, or file:///path of a file with the token")
	case strings.HasPrefix(s.TokenEndpoint, "file:") && (credentials || s.TokenScope != ""):
		refuse("sasl.oauthbearer.client.credentials.* and sasl.oauthbearer.scope: have no effect while sasl.oauthbearer.token.endpoint.url is a file; remove them, or name the token endpoint")
	case !strings.HasPrefix(s.TokenEndpoint, "file:") && (s.TokenClientID == "" || !s.TokenClientSecret.isSet()):
		refuse("sasl.oauthbearer.client.credentials.client.id and …client.secret: both are needed for a token endpoint; for example sasl.oauthbearer.client.credentials.client.secret: ${file:/run/secrets/kafka}")
	}
}

func (s *settings) readJaas(refuse func(string, ...any)) {
	if s.SASLUsername != "" || s.SASLPassword.isSet() || s.TokenClientID != "" || s.TokenClientSecret.isSet() {
		refuse("sasl.jaas.config: given together with sasl.username, sasl.password or sasl.oauthbearer.client.credentials.*; keep one way")
		return
	}
	module, options, err := parseJaas(s.SASLJaas.reveal())
	bearer := module == "OAuthBearerLoginModule"
	switch {
	case err != nil:
		refuse("sasl.jaas.config: %w", err)
	case bearer != (s.SASLMechanism == oauthBearer):
		refuse("sasl.jaas.config: %s does not go with sasl.mechanism %s; write the module of that mechanism", module, s.SASLMechanism)
	case bearer:
		id, secretText := options["clientId"], options["clientSecret"]
		s.TokenClientID, s.TokenClientSecret, s.TokenScope = id, secret{&secretText}, cmp.Or(s.TokenScope, options["scope"])
	case options["username"] == "" || options["password"] == "":
		refuse("sasl.jaas.config: username and password are needed, in double quotes")
	default:
		password := options["password"]
		s.SASLUsername, s.SASLPassword = options["username"], secret{&password}
	}
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
