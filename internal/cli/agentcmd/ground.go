package agentcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// ground is what an installation finds: who would start the agent, and whether that one runs.
type ground struct {
	nixos    bool
	services *services // nil where nobody is known
	runs     bool      // it runs this machine, whose agent this is
}

// survey looks at the machine, or at a folder that is to be one.
func survey(l layout) ground {
	if l.Whole() {
		return surveyed(l.at, true)
	}
	return surveyed(l.at, false)
}

func surveyed(at func(string) string, whole bool) ground {
	there := func(paths ...string) bool {
		for _, p := range paths {
			if _, err := os.Stat(at(p)); err == nil {
				return true
			}
		}
		return false
	}
	id := distribution(at)
	switch {
	case id["nixos"] || there("/etc/NIXOS"):
		return ground{nixos: true}
	case whole && there("/run/systemd/system"): // sd_booted(3)
		return ground{services: &systemd, runs: true}
	case whole && there("/run/openrc/softlevel"):
		return ground{services: &openrc, runs: true}
	case whole:
		return ground{}
	case there("/lib/systemd/systemd", "/usr/lib/systemd/systemd"):
		return ground{services: &systemd}
	case id["alpine"] || there("/sbin/openrc-run", "/usr/sbin/openrc-run"):
		return ground{services: &openrc}
	case there("/sbin/init", "/usr/sbin/init"): // another one
		return ground{}
	}
	return ground{services: &systemd}
}

// distribution is ID and ID_LIKE of os-release(5).
func distribution(at func(string) string) map[string]bool {
	out := map[string]bool{}
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		f, err := os.Open(at(path))
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
			if key == "ID" || key == "ID_LIKE" {
				for _, word := range strings.Fields(strings.Trim(value, `"'`)) {
					out[word] = true
				}
			}
		}
		_ = f.Close()
		if lines.Err() == nil {
			break
		}
	}
	return out
}

// refuse is why no agent can be installed here, or removed, with what to do instead.
func (i *installer) refuse(token string) error {
	switch {
	case i.ground.nixos:
		return exit.With(exit.Refused, errors.New(i.onNixOS(token)))
	case i.ground.services == nil:
		command := i.CommandHere()
		if token != "" {
			command = append(command, "--token", token)
		}
		return exit.With(exit.Refused, fmt.Errorf("neither systemd nor OpenRC starts services here: nothing was changed, and a token is still good. Have what starts them, or a terminal, run this as root and start it again whenever it ends:\n  %s",
			shellLine(append([]string{i.self()}, command[1:]...))))
	}
	return nil
}

// onNixOS says how a machine whose services come out of its configuration has an agent.
func (i *installer) onNixOS(token string) string {
	if token == "" || strings.HasPrefix(token, "steady1.") || token == "-" {
		token = "/etc/steady/HOST.token"
	}
	if abs, err := filepath.Abs(token); err == nil {
		token = abs
	}
	var flags strings.Builder
	for _, f := range i.Args {
		fmt.Fprintf(&flags, " %s", nixString(f))
	}
	return fmt.Sprintf(`this is NixOS, which makes its services of its configuration: nothing was changed, and a token is still good. Write the module and the program beside the configuration:
  %[1]s install --nix > /etc/nixos/steady-agent.nix
  cp %[2]s /etc/nixos/%[3]s
and have in configuration.nix:
  imports = [ ./steady-agent.nix ];
  services.steady-agent = {
    enable = true;
    program = ./%[3]s;
    tokenFile = %[4]s;
    flags = [%[5]s ];
  };
then: nixos-rebuild switch`, i.verb(), shellLine([]string{i.self()}), i.Program, nixString(token), flags.String())
}

// nixString is a string as the language of Nix has it.
func nixString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "${", `\${`, "\n", `\n`).Replace(s) + `"`
}

// self is this program, as whoever runs it finds it.
func (i *installer) self() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return i.Program
}

// writable refuses folders into which nothing can be written, before anything is. A folder that is
// missing is made, so that the nearest one above counts.
func writable(folders ...string) error {
	for _, folder := range folders {
		at := folder
		for {
			info, err := os.Stat(at)
			if err == nil && !info.IsDir() {
				return exit.With(exit.Refused, fmt.Errorf("%s is no folder", at))
			}
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
				return exit.With(exit.Refused, fmt.Errorf("the installation needs %s: %w", folder, err))
			}
			at = filepath.Dir(at)
		}
		f, err := os.CreateTemp(at, ".steady-*")
		if err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
		if err != nil {
			return exit.With(exit.Refused, fmt.Errorf("the installation needs to write into %s, and cannot: %w; nothing was changed, and a token is still good", folder, err))
		}
	}
	return nil
}
