package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Fault is one planted fault.
type Fault struct {
	// Name says in words what is wrong.
	Name string
	File string // from the root of the module
	From string // occurs exactly once in the file
	// To replaces it. ON in it stands for the switch.
	To string
	// Finds are the invariants by which it may be found: the first is the one that
	// it is planted for.
	Finds []string
	// Trust says that only schedules with signed documents can find it.
	Trust bool
	// Restore says the same of schedules in which the server is restored from a backup.
	Restore bool
	// Liars says the same of schedules in which hosts are taken over.
	Liars bool
}

// theSwitch stands beside the faults of each package: the fault whose number is in the
// environment is on.
const theSwitch = `

import (
	"os"
	"strconv"
)

var plantedFault, _ = strconv.Atoi(os.Getenv("STEADY_FAULT"))

func planted(id int) bool { return id == plantedFault }
`

// Plant writes the mutated files into dir and returns the path of the overlay.
// Fault i of the list has the number i+1.
func Plant(root, dir string, faults []Fault) (overlay string, err error) {
	type edit struct {
		at, id int
		f      *Fault
	}
	edits := map[string][]edit{}
	for i := range faults {
		f := &faults[i]
		at, err := find(root, f)
		if err != nil {
			return "", err
		}
		edits[f.File] = append(edits[f.File], edit{at, i + 1, f})
	}
	replace := map[string]string{}
	for file, list := range edits { // order-free: files are written one by one
		slices.SortFunc(list, func(a, b edit) int { return b.at - a.at }) // from the end
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		src := string(raw)
		for i, e := range list {
			if i > 0 && e.at+len(e.f.From) > list[i-1].at {
				return "", fmt.Errorf("%s: %q overlaps %q", file, e.f.Name, list[i-1].f.Name)
			}
			to := strings.ReplaceAll(e.f.To, "ON", "planted("+strconv.Itoa(e.id)+")")
			src = src[:e.at] + to + src[e.at+len(e.f.From):]
		}
		if err := place(root, dir, file, src, replace); err != nil {
			return "", err
		}
		bridge := "package " + filepath.Base(filepath.Dir(file)) + theSwitch
		if err := place(root, dir, filepath.Join(filepath.Dir(file), "planted_faults.go"), bridge, replace); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

// place writes one file of the overlay.
func place(root, dir, file, src string, replace map[string]string) error {
	name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
	replace[filepath.Join(root, file)] = name
	return os.WriteFile(name, []byte(src), 0o600)
}

// find returns where a fault's fragment is.
func find(root string, f *Fault) (int, error) {
	raw, err := os.ReadFile(filepath.Join(root, f.File))
	if err != nil {
		return 0, err
	}
	if n := strings.Count(string(raw), f.From); n != 1 {
		return 0, fmt.Errorf("%s holds the fragment of %q %d times, it has to be there once; adapt the table to the source:\n%s", f.File, f.Name, n, f.From)
	}
	return strings.Index(string(raw), f.From), nil
}
