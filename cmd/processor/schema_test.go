package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// printedSchema is config schema's output.
func printedSchema(t *testing.T) map[string]any {
	t.Helper()
	c, stdout, stderr := newTestCLI()
	if code := c.execute(t.Context(), []string{"config", "schema"}); code != exitOK {
		t.Fatal(stderr)
	}
	var s map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// judge checks a value by the part of JSON Schema that the schema uses. A keyword that it does not know is an error: nothing that the
// schema says stays unchecked.
func judge(root, rule map[string]any, v any) error {
	for word, arg := range rule {
		ok := true
		switch word {
		case "$schema", "$defs", "title", "description", "default", "examples", "writeOnly":
		case "$ref":
			if err := judge(root, root["$defs"].(map[string]any)[strings.TrimPrefix(arg.(string), "#/$defs/")].(map[string]any), v); err != nil {
				return err
			}
		case "type":
			ok = typeOf(v) == arg || arg == "number" && typeOf(v) == "integer"
		case "enum":
			ok = slices.ContainsFunc(arg.([]any), func(x any) bool { return x == v })
		case "pattern":
			s, isText := v.(string)
			ok = !isText || regexp.MustCompile(arg.(string)).MatchString(s)
		case "minLength":
			s, isText := v.(string)
			ok = !isText || float64(len(s)) >= arg.(float64)
		case "minItems":
			list, isList := v.([]any)
			ok = !isList || float64(len(list)) >= arg.(float64)
		case "minimum":
			n, isNumber := v.(float64)
			ok = !isNumber || n >= arg.(float64)
		case "maximum":
			n, isNumber := v.(float64)
			ok = !isNumber || n <= arg.(float64)
		case "anyOf":
			ok = slices.ContainsFunc(arg.([]any), func(x any) bool { return judge(root, x.(map[string]any), v) == nil })
		case "items":
			if list, isList := v.([]any); isList {
				ok = !slices.ContainsFunc(list, func(x any) bool { return judge(root, arg.(map[string]any), x) != nil })
			}
		case "properties", "additionalProperties":
			object, isObject := v.(map[string]any)
			if !isObject {
				return errors.New("not an object")
			}
			if err := judgeProperties(root, rule, object); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the schema says %q, which this checker does not know", word)
		}
		if !ok {
			return fmt.Errorf("%v is against %s: %v", v, word, arg)
		}
	}
	return nil
}

func judgeProperties(root, rule, object map[string]any) error {
	properties := rule["properties"].(map[string]any)
	for name, v := range object {
		of, known := properties[name].(map[string]any)
		if !known {
			return fmt.Errorf("%s is no property", name)
		}
		if err := judge(root, of, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func typeOf(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// fromYAML reads a file as an editor does, with JSON's types.
func fromYAML(t *testing.T, text string) any {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaAcceptsConfigInit(t *testing.T) {
	var b strings.Builder
	for line := range strings.Lines(annotated()) {
		if !strings.HasPrefix(line, "# ") {
			b.WriteString(strings.TrimPrefix(line, "#"))
		}
	}
	s := printedSchema(t)
	file := fromYAML(t, b.String())
	if err := judge(s, s, file); err != nil {
		t.Error(err)
	}
	if got, want := len(file.(map[string]any)), len(keys); got != want {
		t.Errorf("%d keys were looked at, want %d", got, want)
	}
	if !strings.HasPrefix(annotated(), "# yaml-language-server: $schema="+schemaFile+"\n") {
		t.Error("the first line names no schema to editors")
	}
}

// goodAndBad are values as they stand in a file. What only the command can refuse (a duration out of its range) is not here.
var goodAndBad = map[string]struct{ good, bad []string }{
	"bootstrap.servers":    {[]string{"a:1", "a:1, b:2", `["a:1", "[::1]:2"]`, "${env:BROKERS}"}, []string{"a", "a:b", "[]", `[a]`, "7"}},
	"security.protocol":    {[]string{"SSL"}, []string{"ssl", "TLS", `""`}},
	"sasl.mechanism":       {[]string{`""`, "PLAIN"}, []string{"plain"}},
	"commit.interval.ms":   {[]string{"1", "60000", `"${env:MS}"`}, []string{"0", "60001", "1.5", "x", "-1"}},
	"dedupe.expected.rate": {[]string{"0", "0.5"}, []string{"-1", "x"}},
	"production":           {[]string{"true", "false"}, []string{"yes", "1"}},
	"application.id":       {[]string{"ledger-2"}, []string{"Ledger", `""`, "-x"}},
	"state.dir":            {[]string{"/var/lib", "${env:HOME}/x"}, []string{`""`}},
	"dedupe.window":        {[]string{"14d", "1.5d", "36h", "1h30m"}, []string{"14", "two weeks", "topic"}},
	"redelivery.horizon":   {[]string{"topic", "14d"}, []string{"never"}},
	"admin.listen":         {[]string{"off", ":8090", "127.0.0.1:0", `"[::1]:8090"`}, []string{"8090", "here"}},
	"topics.allow":         {[]string{`""`, "a:b", "[a:b, c:d]"}, []string{"a"}},
	"num.standby.replicas": {[]string{"0", `"0"`}, []string{"1"}},
	"acks":                 {[]string{"all"}, []string{"1"}},
	"sasl.password":        {[]string{"${env:P}"}, []string{"[a]", "7"}},
	"no.such.key":          {nil, []string{"x"}},
	"group.id":             {nil, []string{"x"}}, // refused by name
}

func TestSchemaTellsGoodFromBad(t *testing.T) {
	s := printedSchema(t)
	for _, name := range slices.Sorted(maps.Keys(goodAndBad)) {
		for _, v := range goodAndBad[name].good {
			if err := judge(s, s, fromYAML(t, name+": "+v)); err != nil {
				t.Errorf("%s: %s is refused: %v", name, v, err)
			}
			if _, problems := parseConfigFile("f", []byte(name+": "+v)); len(problems) > 0 {
				t.Errorf("%s: %s is good here and refused by the command: %v", name, v, problems)
			}
		}
		for _, v := range goodAndBad[name].bad {
			if judge(s, s, fromYAML(t, name+": "+v)) == nil {
				t.Errorf("%s: %s is accepted", name, v)
			}
		}
	}
}

// What the command gives as an example in an error message must not be an error in an editor, and every limit stands in the schema.
func TestSchemaAgreesWithTheTableOfKeys(t *testing.T) {
	s := printedSchema(t)
	properties := s["properties"].(map[string]any)
	for i := range keys {
		k := &keys[i]
		p := properties[k.name].(map[string]any)
		if p["description"] == "" || p["default"] == nil || (p["writeOnly"] == true) != k.secret {
			t.Errorf("%s: %v", k.name, p)
		}
		if k.example != "" {
			if err := judge(s, s, fromYAML(t, k.name+": "+yamlScalar(k.example))); err != nil {
				t.Errorf("the example of %v", err)
			}
		}
		for _, v := range k.values {
			if err := judge(s, s, fromYAML(t, k.name+": "+yamlScalar(v))); err != nil {
				t.Errorf("a value of %v", err)
			}
		}
		for _, v := range goodAndBad[k.name].bad {
			if k.shape == nil {
				continue // any text: an editor wants quotes where the command does not
			}
			if f, problems := parseConfigFile("f", []byte(k.name+": "+v)); len(problems) == 0 && k.set(&Config{}, f[k.name].raw) == nil {
				t.Errorf("%s: %s is refused by the schema and accepted by the command", k.name, v)
			}
		}
	}
}
