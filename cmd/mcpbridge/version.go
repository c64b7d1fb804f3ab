package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// A versionReport is what "version --json" prints.
type versionReport struct {
	Version  string `json:"version"`  // of the module; "(devel)" for a build outside version control
	Go       string `json:"go"`       // of the toolchain
	Platform string `json:"platform"` // operating system and processor
	Revision string `json:"revision,omitempty"`
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:  "version",
		Args: noWords,
		RunE: func(*cobra.Command, []string) error { return p.printVersion(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

func (p *program) printVersion(asJSON bool) error {
	v := versionReport{Version: buildVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Revision: buildRevision()}
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(v)
	}
	_, err := fmt.Fprintf(p.stdout, "mcpbridge %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}

// buildVersion is the version of the module that this program was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

func buildRevision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
