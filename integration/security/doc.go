// Package security runs the processor's binary against real brokers that want TLS, a client certificate, a login or a right:
// what works, what each mistake says, and that no secret is said with it.
package security
