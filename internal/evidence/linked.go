package evidence

import (
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// module is the beginning of every import path in the tree, also of the Go modules below the first one.
const module = "github.com/tallystick/tallystick/"

// linked returns the folders of all packages of the tree that the one in dir is linked from, itself first; with tests, also those that
// its own tests are. Files of every build tag and system count.
func linked(root, dir string, tests bool) ([]string, error) {
	dirs := []string{dir}
	for i := 0; i < len(dirs); i++ {
		files, err := sourcesOf(root, dirs[i], tests && i == 0)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			imports, err := importsOf(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			for _, other := range imports {
				if !slices.Contains(dirs, other) {
					dirs = append(dirs, other)
				}
			}
		}
	}
	return dirs, nil
}

// importsOf are the folders of the packages of the tree that a file imports.
func importsOf(file string) (dirs []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, i := range f.Imports {
		if dir, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// sourcesOf are the Go files of a package by name, from the root of the tree.
func sourcesOf(root, dir string, tests bool) (files []string, err error) {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if tests || !strings.HasSuffix(name, "_test.go") {
			files = append(files, path.Join(dir, filepath.Base(name)))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s: give the root of the tree", filepath.Join(root, dir))
	}
	slices.Sort(files)
	return files, nil
}
