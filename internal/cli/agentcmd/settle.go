package agentcmd

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/steadyfleet/steady/internal/cli/exit"
)

// settle decides with which flags the agent runs: those that were given, else those of the service that is there. It
// returns what that changes, to be said.
func (i *installer) settle(before declared) ([]string, error) {
	was, err := i.flagsOf(before.Args)
	if err != nil {
		if !i.given {
			return nil, exit.Badf("%s starts the agent with flags that this program does not take: %w; give all flags that it is to have after --", i.at(i.services().Declared), err)
		}
		was = map[string]string{strings.Join(before.Args, " "): ""}
	}
	for name, here := range map[string]string{"state": stateFolder, "root": "/"} {
		there, set := was[name]
		delete(was, name)
		if set && filepath.Clean(there) != here && filepath.Clean(there) != filepath.Clean(i.at(here)) {
			return nil, exit.Badf("%s starts an agent with --%s %s, and this would install one with %s: move the folder there first, or remove that service", i.at(i.services().Declared), name, there, here)
		}
	}
	delete(was, "token") // it is used up
	if !i.given {
		i.Args = nil
		for _, name := range slices.Sorted(maps.Keys(was)) {
			i.Args = append(i.Args, "--"+name+"="+was[name])
		}
		i.Args = asWritten(before.Args, i.Args, i.flagsOf)
	}
	is, err := i.flagsOf(i.Args)
	if err != nil {
		return nil, exit.Badf("after --: %w", err)
	}
	return i.compare(was, is), nil
}

// asWritten are the flags of a service in its own words where they come to the same as canon, without those that an
// installation sets.
func asWritten(args, canon []string, flagsOf func([]string) (map[string]string, error)) []string {
	var out []string
	for n := 0; n < len(args); n++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[n], "-"), "=")
		if slices.Contains([]string{"state", "root", "token"}, name) {
			if !joined {
				n++
			}
			continue
		}
		out = append(out, args[n])
	}
	a, err := flagsOf(out)
	b, err2 := flagsOf(canon)
	if err != nil || err2 != nil || !maps.Equal(a, b) {
		return canon
	}
	return out
}

// flagsOf are the flags of a command line of the agent with their values.
func (i *installer) flagsOf(args []string) (map[string]string, error) {
	f := New(i.use).Flags()
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	out := map[string]string{}
	f.Visit(func(flag *pflag.Flag) {
		out[flag.Name] = flag.Value.String()
		if list, is := flag.Value.(pflag.SliceValue); is {
			out[flag.Name] = strings.Join(list.GetSlice(), ",")
		}
	})
	return out, nil
}

// compare says what becomes of the agent's flags.
func (i *installer) compare(was, is map[string]string) (out []string) {
	said := func(name, value string) string {
		return strings.TrimSpace("--" + name + " " + shellLine([]string{value}))
	}
	c := &i.result.Flags
	for _, name := range slices.Sorted(maps.Keys(was)) {
		now, there := is[name]
		switch {
		case !there:
			c.Removed = append(c.Removed, said(name, was[name]))
		case now == was[name]:
			c.Kept = append(c.Kept, said(name, now))
		default:
			c.Changed = append(c.Changed, said(name, was[name])+" to "+now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[name]; !there {
			c.Added = append(c.Added, said(name, is[name]))
		}
	}
	for _, l := range []struct {
		what  string
		flags []string
	}{{"kept", c.Kept}, {"changed", c.Changed}, {"added", c.Added}, {"removed", c.Removed}} {
		if len(l.flags) > 0 {
			out = append(out, "flags "+l.what+": "+strings.Join(l.flags, ", "))
		}
	}
	return out
}

// retire removes the program that the service ran before, if it is another one that an installation brought and nobody
// else starts.
func (i *installer) retire(before declared) error {
	if before.Program == "" || before.Program == i.binary() || before.Program == i.Binary() {
		return nil
	}
	old := before.Program
	if filepath.Dir(old) != i.at(programs) { // as earlier versions named it
		old = i.at(old)
	}
	return i.removeProgram(old)
}

// removeProgram removes a program of an installation, unless others use it: steady serves operators and servers too.
func (i *installer) removeProgram(path string) error {
	switch by := i.usedBy(path); {
	case filepath.Dir(path) != i.at(programs) || !slices.Contains([]string{"steady", serviceName}, filepath.Base(path)):
		i.did("kept", path, "no installation brought it")
		return nil
	case by != "":
		i.did("kept", path, "%s names it", by)
		return nil
	}
	return i.remove(path)
}

// usedBy is a service of the machine, besides the agent's own, that names a program.
func (i *installer) usedBy(program string) (found string) {
	seen := strings.TrimPrefix(program, strings.TrimSuffix(i.Root, "/"))
	for _, folder := range []string{"/etc/systemd/system", "/etc/init.d"} {
		// What cannot be read there names nothing.
		_ = filepath.WalkDir(i.at(folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || path == i.at(systemd.Declared) || path == i.at(openrc.Declared) || strings.HasSuffix(path, ".replaced") || found != "" {
				return nil
			}
			raw, err := os.ReadFile(path)
			if err == nil && slices.ContainsFunc(strings.FieldsFunc(string(raw), func(r rune) bool { return strings.ContainsRune(" \t\n\r=\"'@+!:", r) }),
				func(word string) bool { return strings.TrimLeft(word, "-") == seen }) {
				found = path
			}
			return nil
		})
	}
	return found
}
