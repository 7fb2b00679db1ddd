package main

import (
	"encoding/json"
	"regexp"
)

// schemaFile is where config init tells editors to look for the schema.
const schemaFile = "processor.schema.json"

// A shape is what JSON Schema (draft 2020-12) says of a key's value. It is a help for editors: a number in quotes and a duration out
// of its range are told apart by the command alone.
type shape map[string]any

func matching(pattern string) shape { return shape{"type": "string", "pattern": pattern} }

func anEnum(values []string) shape { return shape{"type": "string", "enum": values} }

func wholeBetween(low, high int64) shape {
	return shape{"type": "integer", "minimum": low, "maximum": high}
}

func numberBetween(low, high float64) shape {
	return shape{"type": "number", "minimum": low, "maximum": high}
}

// listOf is a text with commas, or a YAML list.
func listOf(item string) shape {
	return shape{"anyOf": []shape{
		matching("^(" + item + `)(\s*,\s*(` + item + "))*$"),
		{"type": "array", "items": matching("^(" + item + ")$"), "minItems": 1},
	}}
}

const (
	addressPattern   = `(\[[0-9a-fA-F:.]+\]|[^\s,:\[\]]+):[0-9]{1,5}`
	exceptionPattern = `[^\s,:]+:[^\s,:]+`
	durationPattern  = `[0-9.]+d|([0-9.]+(ns|us|µs|ms|s|m|h))+`
)

// schema describes the configuration file. Keys that are refused by name are no properties of it.
func schema() map[string]any {
	properties := map[string]any{}
	for _, k := range keys {
		properties[k.name] = k.schema()
	}
	for _, f := range fixedKeys {
		properties[f.name] = shape{"enum": spellings(f.only), "description": "Accepted with this value only: " + f.reason + "."}
	}
	return map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Configuration of processor",
		"description":          "Written by processor config schema. Keys are Kafka's own where Kafka has one.",
		"type":                 "object",
		"additionalProperties": false,
		"properties":           properties,
		"$defs": shape{"reference": shape{"type": "string", "pattern": `\$\{(env|file):[^}]*\}`,
			"description": "A text that is kept elsewhere, or holds one that is: ${env:NAME} or ${file:/path}."}},
	}
}

// spellings are a text, and what YAML makes of it without quotes.
func spellings(text string) []any {
	if _, same := typed(text).(string); !same {
		return []any{text, typed(text)}
	}
	return []any{text}
}

// schema is one property. Any value may be, or hold, a reference.
func (k key) schema() shape {
	value := k.shape
	if value == nil {
		value = shape{"type": "string"}
	}
	s := shape{"description": k.doc, "default": typedAs(value, k.def)}
	if k.limit != "" {
		s["description"] = k.doc + " Allowed: " + k.limit + "."
	}
	if k.example != "" && k.example != k.def {
		s["examples"] = []any{typedAs(value, k.example)}
	}
	if k.secret {
		s["writeOnly"] = true
	}
	if value["type"] == "string" && len(value) == 1 { // any text, which a reference is too
		s["type"] = "string"
		return s
	}
	s["anyOf"] = []any{value, shape{"$ref": "#/$defs/reference"}}
	return s
}

// typedAs is a text of the table as the type of its key has it.
func typedAs(value shape, text string) any {
	if value["type"] == "string" || value["anyOf"] != nil {
		return text
	}
	return typed(text)
}

var jsonScalar = regexp.MustCompile(`^(true|false|-?[0-9]+(\.[0-9]+)?)$`)

// typed is the number or truth value that a text spells, else the text.
func typed(text string) any {
	if jsonScalar.MatchString(text) {
		return json.RawMessage(text)
	}
	return text
}
