package agentcmd

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

const serviceName = "steady-agent"

const unitName = serviceName + ".service"

//go:embed unit.service
var unitText string

//go:embed openrc.sh
var openrcText string

// layout is where the agent of a host lies. Root is the folder that is the host's
// /: what is written goes below it, and what is written names paths as the host sees them.
type layout struct {
	Root    string
	Program string // steady or steady-agent
	Host    string
	Fleet   string
	Args    []string // of the agent, besides where its state and root are
}

// at is a path of the host as this process reaches it.
func (l layout) at(path string) string { return filepath.Join(l.Root, path) }

// programs is the folder of programs that no package of the distribution owns.
const programs = "/usr/local/bin"

// binary is the program, as the host sees it.
func (l layout) binary() string { return filepath.Join(programs, l.Program) }

// Binary is the program.
func (l layout) Binary() string { return l.at(l.binary()) }

const stateFolder = "/var/lib/steady"

// State is the agent's state folder.
func (l layout) State() string { return l.at(stateFolder) }

// Whole reports that the agent is the one of this machine.
func (l layout) Whole() bool { return l.Root == "/" }

// Command starts the agent on the host.
func (l layout) Command() []string { return l.command("/") }

// CommandHere starts it from outside of a root folder that is not the machine's.
func (l layout) CommandHere() []string { return l.command(l.Root) }

func (l layout) command(root string) []string {
	c := []string{filepath.Join(root, l.binary())}
	if l.Program == "steady" {
		c = append(c, "agent")
	}
	return append(append(c, "--state", filepath.Join(root, stateFolder), "--root", root), l.Args...)
}

// services is what starts programs when a machine boots: how the agent is declared to it, and the
// commands with which that is put into effect.
type services struct {
	Name     string // systemd
	Declared string // the file, as the host sees it
	Mode     fs.FileMode
	text     string // template
	command  func(words []string) (string, error)
	read     func(lines []string) (words []string, err error) // what command wrote, or somebody by hand
	decides  []string                                         // what lines begin with that an installation decides anew

	Enable, Start, Restart, Stop, Removed [][]string
	Log                                   string // the command that shows the agent's log
	Links                                 string // that begin the service with the machine, for what Stop does not undo
	Own                                   string // where people put settings of their own, which no installation writes
}

var systemd = services{
	Name: "systemd", Declared: "/etc/systemd/system/" + unitName, Mode: 0o644, text: unitText,
	command: execStart, read: readExecStart, decides: []string{"ExecStart=", "Description="},
	Enable:  [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "enable", unitName}},
	Start:   [][]string{{"systemctl", "start", unitName}},
	Restart: [][]string{{"systemctl", "restart", unitName}},
	Stop:    [][]string{{"systemctl", "disable", "--now", unitName}},
	Removed: [][]string{{"systemctl", "daemon-reload"}},
	Log:     "journalctl -u " + serviceName + " -f",
	Own:     "a drop-in, with systemctl edit " + serviceName,
}

var openrc = services{
	Name: "OpenRC", Declared: "/etc/init.d/" + serviceName, Mode: 0o755, text: openrcText,
	command: shellCommand, read: readShellCommand, decides: []string{"command=", "command_args=", "description="},
	Enable:  [][]string{{"rc-update", "add", serviceName, "default"}},
	Start:   [][]string{{"rc-service", serviceName, "start"}},
	Restart: [][]string{{"rc-service", serviceName, "restart"}},
	Stop:    [][]string{{"rc-service", "--ifstarted", serviceName, "stop"}},
	Links:   "/etc/runlevels/*/" + serviceName, // rc-update fails on those that are not there
	Log:     "tail -f /var/log/" + serviceName + ".log",
	Own:     "/etc/conf.d/" + serviceName,
}

// declaration is what a template has to know.
type declaration struct {
	layout
	CommandLine string
}

// declare is the text of the file that declares the agent.
func (s *services) declare(l layout) (string, error) {
	t, err := template.New(s.Name).Parse(s.text)
	if err != nil {
		return "", err
	}
	line, err := s.command(l.Command())
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, declaration{l, line})
	return b.String(), err
}

// declared is what a file says that declares an agent.
type declared struct {
	There   bool
	Text    string
	Host    string // "web-1 of fleet acme", or empty
	Program string // as the host sees it
	Args    []string
}

// before reads the file of an earlier installation, or one that somebody wrote by hand.
func (s *services) before(l layout) (declared, error) {
	raw, err := os.ReadFile(l.at(s.Declared))
	if errors.Is(err, fs.ErrNotExist) {
		return declared{}, nil
	}
	if err != nil {
		return declared{}, err
	}
	d := declared{There: true, Text: string(raw), Host: hostOf(string(raw))}
	words, err := s.read(joined(d.Text))
	if err != nil {
		return d, fmt.Errorf("%s: %w; give all flags that the agent is to have after --", l.at(s.Declared), err)
	}
	if len(words) == 0 {
		return d, nil
	}
	d.Program, d.Args = words[0], words[1:]
	if len(d.Args) > 0 && d.Args[0] == "agent" {
		d.Args = d.Args[1:]
	}
	return d, nil
}

// joined are the lines of a text, those that end in a backslash with the next.
func joined(text string) (out []string) {
	for _, l := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		out = append(out, strings.TrimSpace(l))
	}
	return out
}

// value is what follows the beginning of the one line that has it; none is empty.
func value(lines []string, begins string) (out string, err error) {
	for _, l := range lines {
		if rest, is := strings.CutPrefix(l, begins); is && rest != "" {
			if out != "" {
				return "", fmt.Errorf("several lines begin with %s", begins)
			}
			out = rest
		}
	}
	return out, nil
}

// lost are the settings of a text that another one lacks, besides those that an installation
// decides anew.
func (s *services) lost(before, after string) (out []string) {
	is := joined(after)
	for _, l := range joined(before) {
		decided := slices.ContainsFunc(s.decides, func(begins string) bool { return strings.HasPrefix(l, begins) })
		if l != "" && l[0] != '#' && l[0] != ';' && !decided && !slices.Contains(is, l) {
			out = append(out, l)
		}
	}
	return out
}

const ofHost = "Steady agent of host "

// hostOf is the host that a declared service is for, or empty.
func hostOf(text string) string {
	for _, l := range strings.Split(text, "\n") {
		key, rest, _ := strings.Cut(l, "=")
		if key != "Description" && key != "description" {
			continue
		}
		if host, is := strings.CutPrefix(strings.Trim(rest, `"'`), ofHost); is {
			return host
		}
	}
	return ""
}
