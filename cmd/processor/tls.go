package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// tlsConfig reads the certificates that the configuration names.
func (c Config) tlsConfig() (*tls.Config, error) {
	roots, err := c.authorities()
	if err != nil {
		return nil, err
	}
	own, err := c.ownCertificates()
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: own}
	if c.EndpointIdentification == "" {
		acceptAnyName(conf)
	}
	return conf, nil
}

// authorities are nil for those of the system.
func (c Config) authorities() (*x509.CertPool, error) {
	pem, name := []byte(c.TruststoreCertificates), "ssl.truststore.certificates"
	if c.TruststoreLocation != "" {
		var err error
		if pem, err = os.ReadFile(c.TruststoreLocation); err != nil {
			return nil, fmt.Errorf("ssl.truststore.location: %w", err)
		}
		name = "ssl.truststore.location: " + c.TruststoreLocation
	}
	if len(pem) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no PEM certificate in it; export one with keytool -exportcert -rfc", name)
	}
	return pool, nil
}

func (c Config) ownCertificates() ([]tls.Certificate, error) {
	key, chain, name := []byte(c.KeystoreKey.reveal()), []byte(c.KeystoreChain), "ssl.keystore.key"
	if c.KeystoreLocation != "" {
		pem, err := os.ReadFile(c.KeystoreLocation)
		if err != nil {
			return nil, fmt.Errorf("ssl.keystore.location: %w", err)
		}
		key, chain, name = pem, pem, "ssl.keystore.location: "+c.KeystoreLocation
	}
	if len(key) == 0 {
		return nil, nil
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it must hold an unencrypted PEM key and its certificate chain", name, err)
	}
	return []tls.Certificate{cert}, nil
}

// acceptAnyName keeps the check of the signature and drops the check of the name, which is what an empty
// ssl.endpoint.identification.algorithm means to a Java client.
func acceptAnyName(conf *tls.Config) {
	conf.InsecureSkipVerify = true // replaced by the check below, which leaves out the name alone
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the broker sent no certificate")
		}
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: conf.RootCAs, Intermediates: between})
		return err
	}
}
