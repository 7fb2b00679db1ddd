package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A reference stands for a text that is kept elsewhere: ${env:NAME} or ${file:/path}. It may be a part of a value. What it
// stands for is never printed; the reference itself may be.
var reference = regexp.MustCompile(`\$\{([a-z]+):([^}]*)\}`)

// isOnlyReference reports whether nothing stands beside references.
func isOnlyReference(s string) bool { return s != "" && reference.ReplaceAllString(s, "") == "" }

// resolve replaces every reference in s.
func (c *cli) resolve(s string) (string, error) {
	var problems []error
	out := reference.ReplaceAllStringFunc(s, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		text, err := c.lookUp(m[1], m[2])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", ref, err))
		}
		return text
	})
	return out, errors.Join(problems...)
}

func (c *cli) lookUp(provider, name string) (string, error) {
	switch provider {
	case "env":
		text, ok := c.lookupEnv(name)
		if !ok {
			return "", errors.New("the variable is not set: export it, or use ${file:/path}")
		}
		return text, nil
	case "file":
		return secretFile(name)
	default:
		return "", fmt.Errorf("unknown provider %q: use ${env:NAME} or ${file:/path}", provider)
	}
}

// secretFile reads a mounted secret; one newline at its end belongs to the editor, not to the secret.
func secretFile(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%w: mount it, or use ${env:NAME}", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
