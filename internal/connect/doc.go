// Package connect reaches brokers: TLS with files that are read again when they change, logins, tokens, and a survey that
// finds out why a broker cannot be used.
//
// A client library reports most mistakes of a connection as a closed one: a TLS listener that meets plain text, a wrong
// password and a missing client certificate all look alike. The survey therefore speaks the protocol itself, one step after
// the other, on connections of its own, and where the other side hangs up it tries what the other side might speak instead.
// What it says is then known and not guessed. It sends no password before the listener has proven that it is the one that
// the configuration describes.
package connect
