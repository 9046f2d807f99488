package agentcmd

import (
	_ "embed"
	"path/filepath"
	"strings"
	"text/template"
)

const unitName = "steady-agent.service"

//go:embed unit.service
var unitText string

// layout is where the agent of a host lies. Root is the folder that is the host's
// /: all paths begin with it.
type layout struct {
	Root    string
	Program string // steady or steady-agent
	Host    string
	Fleet   string
	Args    []string // of the agent, besides where its state and root are
}

// Binary is the program.
func (l layout) Binary() string { return filepath.Join(l.Root, "usr/local/bin", l.Program) }

// State is the agent's state folder.
func (l layout) State() string { return filepath.Join(l.Root, "var/lib/steady") }

// Unit is the service's file.
func (l layout) Unit() string { return filepath.Join(l.Root, "etc/systemd/system", unitName) }

// Whole reports that the agent is the one of this machine.
func (l layout) Whole() bool { return l.Root == "/" }

// Command starts the agent.
func (l layout) Command() []string {
	c := []string{l.Binary()}
	if l.Program == "steady" {
		c = append(c, "agent")
	}
	return append(append(c, "--state", l.State(), "--root", l.Root), l.Args...)
}

// ExecStart is Command as a unit has it: systemd takes quoted words, and expands
// $ and % unless they are doubled.
func (l layout) ExecStart() string {
	var words []string
	for _, w := range l.Command() {
		w = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "%", "%%").Replace(w)
		if w == "" || strings.ContainsAny(w, " \t;'\"\\") {
			w = `"` + w + `"`
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func (l layout) unit() (string, error) {
	t, err := template.New(unitName).Parse(unitText)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, l)
	return b.String(), err
}

// hostOf is the host that a unit's text is for, or empty.
func hostOf(unit string) string {
	_, rest, found := strings.Cut(unit, "\nDescription=Steady agent of host ")
	host, _, _ := strings.Cut(rest, "\n")
	if !found {
		return ""
	}
	return host
}
