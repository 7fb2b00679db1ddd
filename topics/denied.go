package topics

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// DeniedError is a request that the broker's authorizer refused, by the right that is missing.
type DeniedError struct {
	Right    string // READ, WRITE, DELETE, DESCRIBE, DESCRIBE_CONFIGS
	Resource string // topic, group, transactional-id
	Name     string
	Err      error // what the broker said
}

func (e *DeniedError) Error() string {
	said := e.Err.Error()
	if ke := (*kerr.Error)(nil); errors.As(e.Err, &ke) {
		said = ke.Message
	}
	return fmt.Sprintf("%s on %s %s is missing (%s): have it granted; `acls` prints all that is needed", e.Right, e.Resource, e.Name, said)
}

// Unwrap returns what the broker said.
func (e *DeniedError) Unwrap() error { return e.Err }

// Asked says what a request needs, so that its refusal can name the right. A field that does not apply is empty.
type Asked struct {
	Right, Topic    string
	Group           string // READ on it
	TransactionalID string // WRITE on it
}

// Explain returns err as a DeniedError when it is a refusal of what was asked, and err itself otherwise.
func (a Asked) Explain(err error) error {
	switch {
	case err == nil || errors.As(err, new(*DeniedError)):
		return err
	case errors.Is(err, kerr.TopicAuthorizationFailed) && a.Topic != "":
		return &DeniedError{a.Right, "topic", a.Topic, kerr.TopicAuthorizationFailed}
	case errors.Is(err, kerr.GroupAuthorizationFailed) && a.Group != "":
		return &DeniedError{"READ", "group", a.Group, kerr.GroupAuthorizationFailed}
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed) && a.TransactionalID != "":
		return &DeniedError{"WRITE", "transactional-id", a.TransactionalID, kerr.TransactionalIDAuthorizationFailed}
	}
	return err
}
