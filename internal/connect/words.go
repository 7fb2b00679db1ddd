package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

func nameFault(host string, err error) *Fault {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return &Fault{Kind: NoName, Cause: fmt.Sprintf("the name %s cannot be resolved: %s", host, dns.Err), Err: err,
			Remedy: "correct the host name, or what resolves it here (/etc/hosts, /etc/resolv.conf, the container's DNS)"}
	}
	return &Fault{Kind: NoName, Cause: fmt.Sprintf("the name %s cannot be resolved: %v", host, err), Err: err, Remedy: "write host:port"}
}

func dialFault(err error) *Fault {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return &Fault{Kind: Refused, Cause: "nothing listens there (connection refused)", Err: err,
			Remedy: "start the broker, or correct host and port"}
	}
	return &Fault{Kind: NoRoute, Cause: fmt.Sprintf("no answer to a connection within %s: %v", dialPatience, systemWords(err)), Err: err,
		Remedy: "let the port through from this host (firewall, security group, network policy), or correct the address"}
}

// systemWords are the innermost words of a network error: the address stands in the message already.
func systemWords(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Timeout() {
		return "timed out"
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		return call.Err.Error()
	}
	return err.Error()
}

func (l listener) String() string {
	text := protocol(l.tls, l.login)
	if l.login {
		text += " (" + strings.Join(l.mechanisms, ", ") + ")"
	}
	if l.wantsOwn {
		text += " with a client certificate"
	}
	return text
}

func (s Settings) protocolFault(l listener) *Fault {
	what := []string{"set security.protocol to " + protocol(l.tls, l.login)}
	if l.tls && s.TLS == nil {
		what = append(what, "ssl.truststore.location to the authority's PEM file")
	}
	if l.wantsOwn {
		what = append(what, "ssl.keystore.location to a PEM file with this client's key and chain")
	}
	if l.login && s.Login == nil {
		what = append(what, "sasl.mechanism to one of "+strings.Join(l.mechanisms, ", "))
	}
	remedy := strings.Join(what, ", ") + ", or name the port of a listener that speaks " + s.Protocol()
	switch {
	case !l.tls && s.TLS != nil:
		remedy += "; nothing is encrypted on this one"
	case l.wantsOwn && !l.login:
		remedy += "; whether it also wants a login shows only with the certificate"
	}
	return &Fault{Kind: WrongProtocol, Cause: fmt.Sprintf("the listener speaks %s, and security.protocol is %s", l, s.Protocol()), Remedy: remedy}
}

func mechanismFault(ours string, offered []string) *Fault {
	return &Fault{Kind: WrongMechanism, Cause: fmt.Sprintf("the listener does not offer sasl.mechanism %s; it offers %s", ours, strings.Join(offered, ", ")),
		Remedy: "set sasl.mechanism to one that it offers, or have " + ours + " added to its sasl.enabled.mechanisms"}
}

// tlsFault explains a handshake that failed.
func (s Settings) tlsFault(ctx context.Context, addr string, err error, asked *tls.CertificateRequestInfo) *Fault {
	if f := certificateFault(err); f != nil {
		return f
	}
	if f := ownFault(s.TLS, asked, err); f != nil {
		return f
	}
	if l, ok := s.identify(ctx, addr); ok && !l.tls {
		return s.protocolFault(l)
	}
	if as[tls.RecordHeaderError](err) {
		return &Fault{Kind: NotKafka, Cause: "what answers there is no TLS and no broker", Err: err, Remedy: "correct host and port in bootstrap.servers"}
	}
	return &Fault{Kind: Handshake, Cause: "the TLS handshake failed: " + err.Error(), Err: err,
		Remedy: "compare ssl.enabled.protocols and ssl.cipher.suites of the listener: this client speaks TLS 1.2 and 1.3; the broker's log says what it missed"}
}

// certificateFault explains a broker's certificate that was not accepted.
func certificateFault(err error) *Fault {
	cert := certificateOf(err)
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return &Fault{Kind: WrongHost, Err: err, Cause: fmt.Sprintf("its certificate names %s, not %s", names(cert), host.Host),
			Remedy: "write a name that the certificate holds into bootstrap.servers and the broker's advertised.listeners, or have a certificate issued that names this host; ssl.endpoint.identification.algorithm empty would accept any name"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && time.Now().Before(cert.NotBefore):
		return &Fault{Kind: NotYetValid, Err: err, Cause: "its certificate is not valid before " + stamp(cert.NotBefore) + "; this host's clock says " + stamp(time.Now()),
			Remedy: "set the clocks right, or wait for that time"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return &Fault{Kind: Expired, Err: err, Cause: "its certificate ended on " + stamp(cert.NotAfter) + "; this host's clock says " + stamp(time.Now()),
			Remedy: "have the broker's certificate renewed (or set this host's clock right)"}
	case errors.As(err, &invalid):
		return &Fault{Kind: Handshake, Err: err, Cause: "its certificate is not acceptable: " + invalid.Error(), Remedy: "have the broker's certificate issued for server authentication by a proper authority"}
	case as[x509.UnknownAuthorityError](err):
		return &Fault{Kind: UnknownAuthority, Err: err, Cause: fmt.Sprintf("its certificate (%s) is signed by an authority that is not trusted here: %s", cert.Subject, cert.Issuer),
			Remedy: "put that authority's certificate into the PEM file of ssl.truststore.location, after you have made sure that it is yours"}
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func names(cert *x509.Certificate) string {
	all := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no host at all (no subject alternative name)"
	}
	return strings.Join(all, ", ")
}

// ownFault explains a connection that the broker ended after it had asked for our certificate.
func ownFault(t *TLS, asked *tls.CertificateRequestInfo, err error) *Fault {
	if asked.Version == 0 { // it never asked
		return nil
	}
	own, ownErr := t.own()
	if own == nil || ownErr != nil {
		return &Fault{Kind: NoOwnCertificate, Cause: "it wants a certificate of this client (ssl.client.auth=required), and none is configured", Err: err,
			Remedy: "name a PEM file with this client's private key and certificate chain in ssl.keystore.location"}
	}
	cause := fmt.Sprintf("it does not accept this client's certificate (%s, signed by %s): %s", own.Leaf.Subject, own.Leaf.Issuer, hangUpWords(err))
	remedy := "have the certificate signed by an authority in the listener's ssl.truststore, or that authority added to it; its log says more"
	if now := time.Now(); now.After(own.Leaf.NotAfter) || now.Before(own.Leaf.NotBefore) {
		cause = fmt.Sprintf("it does not accept this client's certificate (%s), which is valid from %s to %s only", own.Leaf.Subject, stamp(own.Leaf.NotBefore), stamp(own.Leaf.NotAfter))
		remedy = "renew the certificate in ssl.keystore.location; the next connection uses it"
	}
	return &Fault{Kind: OwnRefused, Cause: cause, Err: err, Remedy: remedy}
}

func hangUpWords(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "it closes the connection"
	}
	return err.Error()
}

// firstAnswerFault explains a connection that ended, or said something strange, when it was first spoken to.
func (s Settings) firstAnswerFault(ctx context.Context, addr string, err error, asked *tls.CertificateRequestInfo) *Fault {
	if isTimeout(err) {
		return &Fault{Kind: Silent, Cause: fmt.Sprintf("it takes connections and does not answer within %s", answerPatience), Err: err,
			Remedy: "look at the broker: it may hang, be overloaded or still start; a TLS listener that waits for more is another reason: check security.protocol"}
	}
	if s.TLS != nil {
		if f := ownFault(s.TLS, asked, err); f != nil {
			return f
		}
		return hungUp("after the TLS handshake", err)
	}
	var strange *notKafkaError
	if l, ok := s.identify(ctx, addr); ok && l.tls {
		return s.protocolFault(l)
	}
	if errors.As(err, &strange) {
		return &Fault{Kind: NotKafka, Cause: "what answers there is no broker: " + strange.Error(), Err: err, Remedy: "correct host and port in bootstrap.servers"}
	}
	return hungUp("when it is spoken to, in plain text and in TLS", err)
}

// unansweredFault explains a broker that spoke and then does not say which brokers there are: a listener that wants a login
// hangs up on everything else.
func (s Settings) unansweredFault(ctx context.Context, addr string, err error) *Fault {
	if s.Login == nil {
		if l, ok := s.identify(ctx, addr); ok && l.login {
			return s.protocolFault(l)
		}
	}
	return hungUp("when it is asked for the cluster's brokers", err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

func hungUp(when string, err error) *Fault {
	return &Fault{Kind: Silent, Cause: fmt.Sprintf("it hangs up %s: %s", when, hangUpWords(err)), Err: err,
		Remedy: "look at the broker's log; a broker that shuts down or a proxy without one behind it does that too"}
}

// loginFault explains a login that failed.
func (s Settings) loginFault(err error) *Fault {
	var fault *Fault
	if errors.As(err, &fault) { // no token
		return fault
	}
	mechanism := s.Login.Name()
	var refused *refusedError
	switch {
	case mechanism == "OAUTHBEARER" && errors.As(err, &refused):
		return &Fault{Kind: LoginRefused, Cause: "it refuses the token: " + refused.message, Err: err,
			Remedy: "compare the token's issuer, audience, scope and times with the listener's sasl.oauthbearer settings; the broker's log says which is wrong"}
	case errors.As(err, &refused):
		return &Fault{Kind: LoginRefused, Cause: fmt.Sprintf("it refuses the login of user %q with %s: %s", s.User, mechanism, refused.message), Err: err,
			Remedy: "check sasl.username and sasl.password; a broker never tells which of the two is wrong, nor whether the user has a password for another mechanism only"}
	case isTimeout(err):
		return hungUp("during the login", err)
	case errors.Is(err, io.EOF):
		return hungUp("during the login", err)
	}
	return &Fault{Kind: LoginRefused, Cause: fmt.Sprintf("the login of user %q with %s failed: %v", s.User, mechanism, err), Err: err,
		Remedy: "check sasl.username and sasl.password"}
}
