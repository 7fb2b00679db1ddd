package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Stage is how far a connection came.
type Stage int

// The stages, in order. A door that opened has reached LoggedIn.
const (
	Unknown   Stage = iota
	Resolved        // the name has an address
	Connected       // TCP
	Encrypted       // TLS, when it is wanted
	Spoke           // it is a broker
	LoggedIn        // SASL, when it is wanted
)

// Door is what was learnt of one broker address.
type Door struct {
	Addr      string
	Reached   Stage
	Fault     *Fault // why it came no further; nil: it opened
	Addresses []string
	TLS       *tls.ConnectionState // nil: not reached, or plain text
	Version   string               // of the broker, as far as its requests tell
	Offered   []string             // mechanisms of the listener
	Took      time.Duration        // of the ApiVersions round trip

	answer *kmsg.MetadataResponse // once it opened
}

// knock goes through all steps of a connection to addr, of which none remains.
func (s Settings) knock(ctx context.Context, addr string) Door {
	d := &Door{Addr: addr}
	w, fault := s.steps(ctx, d)
	if w != nil {
		_ = w.Close() // it was only asked questions
	}
	if fault != nil {
		fault.Addr, d.Fault = addr, fault
	}
	return *d
}

func (s Settings) steps(ctx context.Context, d *Door) (*wire, *Fault) {
	conn, fault := s.reach(ctx, d)
	if fault != nil {
		return nil, fault
	}
	asked := &tls.CertificateRequestInfo{}
	if s.TLS != nil {
		secured, err := s.TLS.shake(ctx, conn, d.Addr, asked)
		if err != nil {
			_ = conn.Close() // the handshake has failed: there is nobody to tell
			return nil, s.tlsFault(ctx, d.Addr, err, asked)
		}
		conn, d.Reached = secured, Encrypted
		state := secured.ConnectionState()
		d.TLS = &state
	}
	w := newWire(conn, s.ClientID)
	began := time.Now()
	versions, err := w.apiVersions(ctx)
	if err != nil {
		return w, s.firstAnswerFault(ctx, d.Addr, err, asked)
	}
	d.Took, d.Version, d.Reached = time.Since(began), kversion.FromApiVersionsResponse(versions).VersionGuess(), Spoke
	if fault := s.login(ctx, w, d); fault != nil {
		return w, fault
	}
	if d.answer, err = w.brokers(ctx); err != nil {
		return w, s.unansweredFault(ctx, d.Addr, err)
	}
	d.Reached = LoggedIn
	return w, nil
}

// reach resolves the name and connects.
func (s Settings) reach(ctx context.Context, d *Door) (net.Conn, *Fault) {
	host, _, err := net.SplitHostPort(d.Addr)
	if err != nil {
		return nil, nameFault(d.Addr, err)
	}
	look, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if d.Addresses, err = net.DefaultResolver.LookupHost(look, host); err != nil {
		return nil, nameFault(host, err)
	}
	d.Reached = Resolved
	conn, err := (&net.Dialer{Timeout: dialPatience}).DialContext(ctx, "tcp", d.Addr)
	if err != nil {
		return nil, dialFault(err)
	}
	d.Reached = Connected
	return conn, nil
}

// shake is a handshake over conn; asked receives the broker's request for a certificate, if it makes one.
func (t *TLS) shake(ctx context.Context, conn net.Conn, addr string, asked *tls.CertificateRequestInfo) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	conf, err := t.Config(host)
	if err != nil {
		return nil, err
	}
	answer := conf.GetClientCertificate
	conf.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		*asked = *info
		if answer == nil {
			return &tls.Certificate{}, nil
		}
		return answer(info)
	}
	return handshake(ctx, conn, conf)
}

func handshake(ctx context.Context, conn net.Conn, conf *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	secured := tls.Client(conn, conf)
	return secured, secured.HandshakeContext(ctx)
}

// login logs in, if that is configured.
func (s Settings) login(ctx context.Context, w *wire, d *Door) *Fault {
	if s.Login == nil {
		return nil
	}
	offered, verdict, err := w.logins(ctx, s.Login.Name())
	d.Offered = offered
	switch {
	case err != nil:
		return hungUp("on the question for a login", err)
	case errors.Is(verdict, kerr.IllegalSaslState):
		return s.protocolFault(listener{tls: s.TLS != nil})
	case verdict != nil:
		return mechanismFault(s.Login.Name(), offered)
	}
	return s.authenticate(ctx, w, d.Addr)
}

func (s Settings) authenticate(ctx context.Context, w *wire, addr string) *Fault {
	ctx, cancel := context.WithTimeout(ctx, 2*answerPatience)
	defer cancel()
	session, message, err := s.Login.Authenticate(ctx, addr)
	for done := false; err == nil && (!done || len(message) > 0); {
		req, resp := kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrSASLAuthenticateResponse()
		req.Version, req.SASLAuthBytes = 1, message
		if err = w.ask(ctx, req, resp); err == nil {
			err = refusal(resp)
		}
		if message = nil; err == nil && !done {
			done, message, err = session.Challenge(resp.SASLAuthBytes)
		}
	}
	if err != nil {
		return s.loginFault(err)
	}
	return nil
}

// refusedError is a broker's answer to a login.
type refusedError struct {
	err     error
	message string
}

func (e *refusedError) Error() string { return e.err.Error() + ": " + e.message }
func (e *refusedError) Unwrap() error { return e.err }

func refusal(resp *kmsg.SASLAuthenticateResponse) error {
	err := kerr.ErrorForCode(resp.ErrorCode)
	if err == nil {
		return nil
	}
	message := "no reason given"
	if resp.ErrorMessage != nil && *resp.ErrorMessage != "" {
		message = *resp.ErrorMessage
	}
	return &refusedError{err, message}
}

// listener is what a listener turned out to speak.
type listener struct {
	tls, login bool
	mechanisms []string
	wantsOwn   bool // a client certificate
}

// identify finds out what the listener speaks, whatever the settings are: plain text first, then TLS without looking at the
// certificate. Nothing secret is sent.
func (s Settings) identify(ctx context.Context, addr string) (listener, bool) {
	for _, secure := range []bool{false, true} {
		if l, ok := s.try(ctx, addr, secure); ok {
			return l, true
		}
	}
	return listener{}, false
}

func (s Settings) try(ctx context.Context, addr string, secure bool) (listener, bool) {
	l := listener{tls: secure}
	conn, err := (&net.Dialer{Timeout: dialPatience}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return l, false
	}
	defer func() { _ = conn.Close() }() // it was only asked questions
	if secure {
		conf := &tls.Config{InsecureSkipVerify: true, // it is asked what it is, and told nothing
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				l.wantsOwn = true
				return &tls.Certificate{}, nil
			}}
		secured, err := handshake(ctx, conn, conf)
		if err != nil {
			return l, l.wantsOwn || as[tls.AlertError](err) || isAlert(err)
		}
		conn = secured
	}
	w := newWire(conn, s.ClientID)
	if _, err := w.apiVersions(ctx); err != nil {
		return l, secure // the handshake is proof enough
	}
	l.mechanisms, _, err = w.logins(ctx, "PLAIN")
	l.login = err == nil && len(l.mechanisms) > 0
	return l, true
}

func as[T error](err error) bool { return errors.As(err, new(T)) }

// isAlert reports whether the other side ended a handshake by TLS's own means.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// certificateOf is the broker's certificate that a failed check is about, nil if the error holds none.
func certificateOf(err error) *x509.Certificate {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &host):
		return host.Certificate
	case errors.As(err, &invalid):
		return invalid.Cert
	case errors.As(err, &unknown):
		return unknown.Cert
	}
	return nil
}
