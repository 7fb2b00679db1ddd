package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tallystick/tallystick/internal/connect"
	"github.com/tallystick/tallystick/pipeline"
)

// diagnosis maps what a client or broker said to an exit code and to what a person can do. The first match wins.
type diagnosis struct {
	matches func(error) bool
	code    exitCode
	hint    string
}

var diagnoses = []diagnosis{
	{is(pipeline.ErrDuplicateInstance), exitFailed, "nothing is lost or doubled, and one of the two goes on; a supervisor that starts this one again lets them take turns"},
	{is(pipeline.ErrNotDrained), exitFailed, "nothing is lost: the next start with the same state.dir decides what was open"},
	{is(kerr.SaslAuthenticationFailed), exitFailed, "the broker knows no such user or password: check sasl.username and sasl.password"},
	{is(kerr.UnsupportedSaslMechanism), exitFailed, "the broker does not offer this sasl.mechanism: ask for its sasl.enabled.mechanisms"},
	{is(kerr.TopicAuthorizationFailed), exitFailed, "the user lacks a right on the topic, one of READ, WRITE and DESCRIBE unless another is named: processor acls prints what each use needs"},
	{is(kerr.GroupAuthorizationFailed), exitFailed, "the user lacks a right on the group, which is application.id: processor acls prints what each use needs"},
	{is(kerr.TransactionalIDAuthorizationFailed), exitFailed, "the user lacks a right on transactional ids with the prefix application.id: processor acls prints what each use needs"},
	{is(kerr.ClusterAuthorizationFailed), exitFailed, "the user lacks a right on the cluster: processor acls prints what each use needs, and none of it is on the cluster"},
	{is(kerr.InvalidTopicException), exitUsage, "this is not a topic name: it has 1 to 249 letters, digits, dots, dashes and underscores"},
	{is(kerr.UnknownTopicOrPartition), exitNotFound, "the topic does not exist: processor topics plan shows what is missing, topics apply creates it"},
	{is(pipeline.ErrMissingTopics), exitNotFound, "processor topics plan shows what they will be"},
	{says("not exist: "), exitNotFound, "processor topics plan shows what is missing"}, // our own packages' words
	{is(kerr.GroupIDNotFound), exitNotFound, "the group does not exist: nothing ran under this application.id yet"},
	{as[x509.HostnameError], exitFailed, "the certificate names another host: put the name it shows into bootstrap.servers and the broker's advertised.listeners, or set ssl.endpoint.identification.algorithm to empty"},
	{as[x509.UnknownAuthorityError], exitFailed, "the broker's certificate is signed by an authority that is not trusted here: name its PEM file in ssl.truststore.location"},
	{as[x509.CertificateInvalidError], exitFailed, "the broker's certificate is not valid now: look at its dates and purpose"},
	{as[tls.RecordHeaderError], exitFailed, "the broker does not speak TLS on this port: security.protocol must fit the listener"},
	{says("tls: certificate required"), exitFailed, "the broker wants a certificate of this client: name a PEM file with key and chain in ssl.keystore.location"},
	{as[*kgo.ErrFirstReadEOF], exitUnavailable, "the broker closed the connection at once: a TLS listener met PLAINTEXT, or the other way round, or the SASL login failed; check security.protocol"},
	{says("no such host"), exitUnavailable, "the name of a broker cannot be resolved: check bootstrap.servers, and the broker's advertised.listeners"},
	{is(syscall.ECONNREFUSED), exitUnavailable, "no broker listens at that address: check bootstrap.servers, and the broker's advertised.listeners"},
	{is(pipeline.ErrUnreachable), exitUnavailable, "check bootstrap.servers, the network and the broker's advertised.listeners"},
	{is(context.DeadlineExceeded), exitUnavailable, "the broker did not answer in time: check bootstrap.servers, and whether the cluster is healthy"},
	{isNetwork, exitUnavailable, "the broker cannot be reached: check bootstrap.servers, the network and the broker's advertised.listeners"},
	{is(io.EOF), exitUnavailable, "the broker closed the connection: security.protocol may not fit the listener; look at the broker's log"},
	{is(io.ErrUnexpectedEOF), exitUnavailable, "the broker closed the connection: security.protocol may not fit the listener; look at the broker's log"},
	{retriable, exitUnavailable, "the cluster could not answer now: try again"},
}

func diagnose(err error) (exitCode, string) {
	if f := connect.FaultOf(err); f != nil {
		return faultCode(f), f.Remedy
	}
	for _, d := range diagnoses {
		if d.matches(err) {
			return d.code, d.hint
		}
	}
	return exitFailed, ""
}

// rightsFirst puts before a hint what is to be done when a right is missing: without it the hint leads nowhere.
func rightsFirst(err error, hint string) string {
	for _, denied := range []error{kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed} {
		if errors.Is(err, denied) {
			return "have the right granted (processor acls prints what each use needs), then " + hint
		}
	}
	return hint
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[T error](err error) bool { return errors.As(err, new(T)) }

// isNetwork leaves out what a file said: a bare errno passes for a net.Error too.
func isNetwork(err error) bool { return as[net.Error](err) && !as[*fs.PathError](err) }

func says(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

func retriable(err error) bool { return kerr.IsRetriable(err) }
