package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readConfigFile reads a flat YAML mapping of keys to scalars. An empty path is an empty file.
func readConfigFile(path string) (map[string]setting, []error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, []error{fmt.Errorf("%w: name a file that exists, or write one with processor config init", err)}
	}
	return parseConfigFile(path, text)
}

func parseConfigFile(path string, text []byte) (map[string]setting, []error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, []error{syntaxError(path, err)}
	}
	f := configFile{path: path, found: map[string]setting{}}
	for i, doc := range file.Docs {
		if i > 0 && doc.Body != nil {
			f.refuse(doc.Body, "a second document; keep everything in one")
		} else if doc.Body != nil {
			f.document(doc.Body)
		}
	}
	return f.found, f.problems
}

// configFile collects the keys and the problems of one file.
type configFile struct {
	path     string
	found    map[string]setting
	problems []error
}

func (f *configFile) document(body ast.Node) {
	switch n := body.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			f.entry(v)
		}
	case *ast.MappingValueNode:
		f.entry(n)
	case *ast.CommentGroupNode, *ast.NullNode:
	default:
		f.refuse(body, "not a list of keys; write one key: value a line")
	}
}

func (f *configFile) entry(v *ast.MappingValueNode) {
	name, place := v.Key.GetToken().Value, f.at(v.Key)
	if !known(name) {
		f.problems = append(f.problems, unknownInFile(name, place, v.Value))
		return
	}
	value, problem := scalar(v.Value)
	if problem != "" {
		f.problems = append(f.problems, fmt.Errorf("%s (%s): %s", name, f.at(v.Value), problem))
		return
	}
	f.problems = append(f.problems, accept(f.found, name, value, f.at(v.Value))...)
}

func known(name string) bool {
	for _, n := range everyName() {
		if n == name {
			return true
		}
	}
	return false
}

// unknownInFile knows the most likely reason for an unknown key that holds keys: dots written as indentation.
func unknownInFile(name, place string, value ast.Node) error {
	if inner := firstKey(value); inner != "" && known(name+"."+inner) {
		return fmt.Errorf("%s (%s): unknown key; keys are written flat: %s.%s: …", name, place, name, inner)
	}
	return unknownKey(name, place, everyName())
}

func firstKey(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return n.Values[0].Key.GetToken().Value
		}
	case *ast.MappingValueNode:
		return n.Key.GetToken().Value
	}
	return ""
}

// scalar is the text of a value; a list of scalars is joined by commas. problem says why it is neither.
func scalar(n ast.Node) (text, problem string) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, ""
	case *ast.LiteralNode:
		return n.Value.Value, ""
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, ""
	case *ast.NullNode:
		return "", `no value; write one, "" for an empty text, or remove the key`
	case *ast.SequenceNode:
		return commaList(n)
	case *ast.MappingNode, *ast.MappingValueNode:
		return "", "holds keys where a value belongs"
	default:
		return "", "anchors, aliases and tags are not read; write the value out"
	}
}

func commaList(n *ast.SequenceNode) (text, problem string) {
	parts := make([]string, len(n.Values))
	for i, v := range n.Values {
		if parts[i], problem = scalar(v); problem != "" {
			return "", problem
		}
	}
	return strings.Join(parts, ","), ""
}

func (f *configFile) refuse(n ast.Node, why string) {
	f.problems = append(f.problems, fmt.Errorf("%s: %s", f.at(n), why))
}

func (f *configFile) at(n ast.Node) string { return position(f.path, n.GetToken()) }

func position(path string, t *token.Token) string {
	if t == nil || t.Position == nil {
		return path
	}
	return fmt.Sprintf("%s:%d:%d", path, t.Position.Line, t.Position.Column)
}

func syntaxError(path string, err error) error {
	if y := (yaml.Error)(nil); errors.As(err, &y) {
		return fmt.Errorf("%s: not valid YAML: %s", position(path, y.GetToken()), y.GetMessage())
	}
	return fmt.Errorf("%s: not valid YAML: %w", path, err)
}
