package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

type dur = time.Duration

// A nameRule is what a name may look like, for the machine and for people.
type nameRule struct {
	pattern *regexp.Regexp
	limit   string
	example string
}

var (
	appName      = nameRule{regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`), "1 to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or digit", "ledger"}
	instanceName = nameRule{regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,63})?$`), "empty, or 1 to 64 of a-z, 0-9, dot, dash and underscore, the first a letter or digit", "ledger-0"}
	clientName   = nameRule{regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`), "1 to 100 letters, digits, dots, dashes and underscores", "processor"}
)

func text(name string, g keyGroup, def string, rule nameRule, field func(*Config) *string, doc string) key {
	return key{name: name, group: g, def: def, limit: rule.limit, example: rule.example, shape: matching(rule.pattern.String()), doc: doc, set: func(c *Config, s string) error {
		if !rule.pattern.MatchString(s) {
			return errors.New("not a valid name")
		}
		*field(c) = s
		return nil
	}}
}

// free is any text, the empty one included.
func free(name string, g keyGroup, field func(*Config) *string, doc string) key {
	return key{name: name, group: g, doc: doc, set: func(c *Config, s string) error {
		*field(c) = s
		return nil
	}}
}

// tokenEndpoint is the address of a token: over the network only encrypted, because a secret goes there.
func tokenEndpoint(name string, g keyGroup, field func(*Config) *string, doc string) key {
	return key{name: name, group: g, doc: doc, limit: "https://…, http:// to localhost, or file:///path", example: "https://idp.example/oauth2/token", set: func(c *Config, s string) error {
		*field(c) = s
		u, err := url.Parse(s)
		switch {
		case s == "":
			return nil
		case err != nil:
			return errors.New("not an address")
		case u.User != nil:
			return errors.New("it holds a user or password: write those into sasl.oauthbearer.client.credentials.*")
		case u.Scheme == "https" && u.Host != "", u.Scheme == "http" && isLoopback(u.Hostname()):
			return nil
		case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
			return nil
		case u.Scheme == "http":
			return errors.New("the client secret would travel in clear")
		}
		return errors.New("neither https:// nor file:///")
	}}
}

func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

func hiddenText(name string, g keyGroup, field func(*Config) *secret, doc string) key {
	return key{name: name, group: g, secret: true, doc: doc, set: func(c *Config, s string) error {
		*field(c) = secret{&s}
		return nil
	}}
}

func path(name string, g keyGroup, def func(*cli) string, field func(*Config) *string, doc string) key {
	return key{name: name, group: g, def: "${env:HOME}/.local/state/tallystick", pathDef: def, doc: doc,
		limit: "a directory", example: "/var/lib/tallystick", shape: shape{"type": "string", "minLength": 1}, set: func(c *Config, s string) error {
			if s == "" {
				return errors.New("empty")
			}
			*field(c) = s
			return nil
		}}
}

func oneOf(name string, g keyGroup, def string, values []string, field func(*Config) *string, doc string) key {
	shown := make([]string, len(values))
	for i, v := range values {
		shown[i] = orEmpty(v)
	}
	return key{name: name, group: g, def: def, limit: strings.Join(shown, ", "), values: values, shape: anEnum(values), doc: doc, set: func(c *Config, s string) error {
		if !slices.Contains(values, s) {
			return errors.New("not one of the values")
		}
		*field(c) = s
		return nil
	}}
}

func orEmpty(s string) string {
	if s == "" {
		return "empty"
	}
	return s
}

func names(name string, g keyGroup, def string, field func(*Config) *[]string, doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: "host:port, separated by commas", example: "kafka-1:9092,kafka-2:9092", shape: listOf(addressPattern),
		set: func(c *Config, s string) error {
			list, err := addresses(s)
			*field(c) = list
			return err
		}}
}

// exceptions is a list of topic:key, the empty one included.
func exceptions(name string, g keyGroup, field func(*Config) *[]string, doc string) key {
	return key{name: name, group: g, doc: doc, limit: "topic:key, separated by commas", example: "credit-events:message.timestamp.after.max.ms",
		shape: shape{"anyOf": []shape{matching("^$"), listOf(exceptionPattern)}},
		set: func(c *Config, s string) error {
			var list []string
			for part := range strings.SplitSeq(s, ",") {
				part = strings.TrimSpace(part)
				if topic, setting, ok := strings.Cut(part, ":"); s != "" && (!ok || topic == "" || setting == "") {
					return errors.New("not topic:key")
				}
				if part != "" {
					list = append(list, part)
				}
			}
			*field(c) = list
			return nil
		}}
}

func addresses(s string) ([]string, error) {
	var list []string
	for part := range strings.SplitSeq(s, ",") { // the text itself stays out of the error: it may come out of a reference
		host, port, err := net.SplitHostPort(strings.TrimSpace(part))
		if err != nil || host == "" {
			return nil, fmt.Errorf("entry %d is no host:port", len(list)+1)
		}
		if !isPort(port, 1) {
			return nil, fmt.Errorf("the port of entry %d is not 1 to 65535", len(list)+1)
		}
		list = append(list, net.JoinHostPort(host, port))
	}
	return list, nil
}

func isPort(s string, lowest int) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= lowest && n <= 65535
}

func listen(name string, g keyGroup, def string, field func(*Config) *string, doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: "host:port (port 0: any free one), or off", example: "127.0.0.1:8090",
		shape: matching(`^(off|(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]*):[0-9]{1,5})$`),
		set: func(c *Config, s string) error {
			if s == "off" {
				*field(c) = ""
				return nil
			}
			_, port, err := net.SplitHostPort(s)
			if err != nil || !isPort(port, 0) {
				return errors.New("not host:port")
			}
			*field(c) = s
			return nil
		}}
}

func integer(name string, g keyGroup, def string, low, high int64, store func(*Config, int64), doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: fmt.Sprintf("%d to %d", low, high), example: def, shape: wholeBetween(low, high), set: func(c *Config, s string) error {
		n, err := wholeNumber(s, low, high)
		store(c, n)
		return err
	}}
}

func wholeNumber(s string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errors.New("out of range")
	case err != nil:
		return 0, errors.New("not a whole number")
	case n < low || n > high:
		return 0, errors.New("out of range")
	}
	return n, nil
}

func millis(name string, g keyGroup, def string, low, high int64, field func(*Config) *dur, doc string) key {
	k := integer(name, g, def, low, high, func(c *Config, n int64) { *field(c) = dur(n) * time.Millisecond }, doc)
	k.limit += " (milliseconds)"
	return k
}

func decimal(name string, g keyGroup, def string, low, high float64, field func(*Config) *float64, doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: fmt.Sprintf("%.0f to %.0f", low, high), example: "100", shape: numberBetween(low, high), set: func(c *Config, s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return errors.New("not a number")
		}
		if !(x >= low && x <= high) { // also false for NaN
			return errors.New("out of range")
		}
		*field(c) = x
		return nil
	}}
}

// trueOrFalse is the limit of booleans; as a flag such a key needs no value.
const trueOrFalse = "true or false"

func boolean(name string, g keyGroup, def string, field func(*Config) *bool, doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: trueOrFalse, values: []string{"true", "false"}, shape: shape{"type": "boolean"}, set: func(c *Config, s string) error {
		if s != "true" && s != "false" {
			return errors.New("neither true nor false")
		}
		*field(c) = s == "true"
		return nil
	}}
}

const (
	shortestWindow = time.Second
	longestWindow  = 3650 * 24 * time.Hour
	windowLimit    = "1s to 3650d (d, h, m, s)"
)

func window(name string, g keyGroup, def string, field func(*Config) *dur, doc string) key {
	return key{name: name, group: g, def: def, doc: doc, limit: windowLimit, example: def, shape: matching("^(" + durationPattern + ")$"), set: func(c *Config, s string) error {
		d, err := duration(s)
		*field(c) = d
		return err
	}}
}

// horizon is a window or the word topic, which is stored as 0.
func horizon(name string, g keyGroup, def string, field func(*Config) *dur, doc string) key {
	k := window(name, g, def, field, doc)
	parse := k.set
	k.limit, k.example, k.shape = "topic, or "+windowLimit, "14d", matching("^(topic|"+durationPattern+")$")
	k.set = func(c *Config, s string) error {
		if s == "topic" {
			*field(c) = 0
			return nil
		}
		return parse(c, s)
	}
	return k
}

// duration reads Go's durations and whole or broken days ("14d", "1.5d"), which Go has no unit for.
func duration(s string) (dur, error) {
	d, err := time.ParseDuration(s)
	if days, isDays := strings.CutSuffix(s, "d"); isDays {
		var x float64
		x, err = strconv.ParseFloat(days, 64)
		d = dur(x * float64(24*time.Hour))
	}
	if err != nil {
		return 0, errors.New("not a duration with its unit")
	}
	if d < shortestWindow || d > longestWindow {
		return 0, errors.New("out of range")
	}
	return d, nil
}
