package connect

// Kind is what is wrong with a connection. The words are part of doctor's JSON.
type Kind string

// The kinds, in the order in which a connection meets them.
const (
	NoName             Kind = "dns"                        // the host name has no address
	Refused            Kind = "refused"                    // nothing listens there
	NoRoute            Kind = "no_answer"                  // no answer to a connection
	WrongProtocol      Kind = "security_protocol"          // TLS or login differ from what the listener wants
	NotKafka           Kind = "not_kafka"                  // something else answers
	UnknownAuthority   Kind = "unknown_authority"          // the broker's certificate is signed by a stranger
	WrongHost          Kind = "wrong_host"                 // the broker's certificate names another host
	Expired            Kind = "certificate_expired"        // the broker's certificate is not valid any more
	NotYetValid        Kind = "certificate_not_yet_valid"  // the broker's certificate is not valid yet
	Handshake          Kind = "tls_handshake"              // TLS fails for another reason
	NoOwnCertificate   Kind = "client_certificate_missing" // the broker wants one
	OwnRefused         Kind = "client_certificate_refused" // the broker does not accept ours
	WrongMechanism     Kind = "sasl_mechanism"             // the listener does not offer it
	LoginRefused       Kind = "login_refused"              // user, password or token is wrong
	TokenUnreachable   Kind = "token_endpoint_unreachable" // nobody gives us a token
	TokenRefused       Kind = "token_refused"              // the endpoint refuses the client's credentials
	TokenMissing       Kind = "token_missing"              // an answer or file without a usable token
	TokenExpired       Kind = "token_expired"              // a token that is not valid any more
	Silent             Kind = "silent"                     // it accepts connections and does not answer
	StrayAdvertisement Kind = "advertised_listener"        // what the brokers advertise cannot be used
)

// Fault is why a broker cannot be used: what happened and what to do.
type Fault struct {
	Kind   Kind
	Addr   string // where; empty when it is no broker
	Cause  string
	Remedy string
	Err    error // what the system said, if anything
}

// Error is the address and the cause.
func (f *Fault) Error() string {
	if f.Addr == "" {
		return f.Cause
	}
	return "broker " + f.Addr + ": " + f.Cause
}

// Unwrap returns what the system said.
func (f *Fault) Unwrap() error { return f.Err }

// Passes reports whether waiting may help: a broker, a network or a name server that is not up yet.
func (f *Fault) Passes() bool {
	switch f.Kind {
	case NoName, Refused, NoRoute, Silent, TokenUnreachable:
		return true
	case StrayAdvertisement:
		inner := FaultOf(f.Err)
		return inner != nil && inner.Passes()
	}
	return false
}
