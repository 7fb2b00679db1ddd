package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what a bug report must say.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Client   string `json:"franz_go"`
	Platform string `json:"platform"`
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, and what it was built with",
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			return printOne(c, v, v.String())
		},
	}
}

func (v versionInfo) String() string {
	s := "processor " + v.Version
	if v.Revision != "" {
		s += " " + v.Revision
	}
	if v.Modified {
		s += " modified"
	}
	return fmt.Sprintf("%s, %s, franz-go %s, %s", s, v.Go, v.Client, v.Platform)
}

func readVersion() versionInfo {
	v := versionInfo{Version: "unknown", Client: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	for _, d := range info.Deps {
		if d.Path == "github.com/twmb/franz-go" {
			v.Client = d.Version
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
