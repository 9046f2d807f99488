package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Volume is one named volume.
type Volume struct {
	Name     string            `json:"name"`
	External string            `json:"external,omitempty"`
	Title    string            `json:"title,omitempty"`
	Driver   string            `json:"driver,omitempty" doc:"by default local"`
	Options  map[string]string `json:"options,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Keep is how long the data stays when the volume is no longer declared, of a session's.
	Keep clock.Duration `json:"keep,omitempty" doc:"ms that the data stays after the session, at most 30 days; of sessions alone"`
	// Owner is whose the data is. Agents set it in the managed layer.
	Owner Owner `json:"owner,omitempty" doc:"set by agents"`
}

func (v *Volume) Named() *string { return &v.Name }

func (v *Volume) Normalize() {
	if v.Title == v.Name {
		v.Title = ""
	}
	if v.Driver == "local" {
		v.Driver = ""
	}
	v.Options, v.Labels = filledMap(v.Options), filledMap(v.Labels)
}

func (v *Volume) Needs() []Need   { return nil }
func (v *Volume) Blobs() []Blob   { return nil }
func (v *Volume) Confine(*Bounds) {}

func (v *Volume) Unique() string {
	if v.External != "" {
		return ""
	}
	return cmp.Or(v.Title, v.Name)
}

// EngineName is the volume's name on the engine.
func (v *Volume) EngineName(t NameMapper) string {
	return cmp.Or(v.External, t(cmp.Or(v.Title, v.Name)))
}

func (v *Volume) Claims(t NameMapper) []Claim {
	return []Claim{{What: fmt.Sprintf("volume %q", v.EngineName(t))}}
}

func (v *Volume) Check(c Checker) {
	checkTitle(c.In("title"), v.Title)
	checkText(c.In("driver"), v.Driver, v.External)
	checkMap(c.In("options"), v.Options)
	checkLabels(c.In("labels"), v.Labels)
	if v.Keep < 0 || v.Keep > MaxKeep {
		c.In("keep").Addf("it would be kept for %s: expected at most %s", v.Keep, MaxKeep)
	}
	if v.Keep > 0 && len(v.Options) > 0 {
		c.In("keep").Addf("a volume with options keeps no data of its own: expected one of the two")
	}
	if v.External != "" && (v.Keep != 0 || v.Title != "" || v.Driver != "" || len(v.Options)+len(v.Labels) > 0) {
		c.Addf("an external volume is never made or changed: expected nothing but its name")
	}
}

func (v *Volume) CheckBounds(b *Bounds, c Checker) {
	if v.External != "" {
		c.In("external").Addf("volume %q of another owner: the managed layer has its own volumes alone", v.External)
	}
	if v.Driver != "" && v.Driver != "local" {
		c.In("driver").Addf("volume driver %q: expected local", v.Driver)
	}
	if len(v.Options) == 0 {
		return
	}
	tmpfs, bind := v.Options["type"] == "tmpfs" && v.Options["device"] == "tmpfs" && memoryOptions(v.Options["o"]), false
	if o := strings.Split(v.Options["o"], ","); v.Options["type"] == "none" || v.Options["type"] == "" {
		bind = len(v.Options) <= 3 && (slices.Equal(o, []string{"bind"}) || slices.Equal(o, []string{"ro", "bind"}) || slices.Equal(o, []string{"bind", "ro"})) && b.outermost(v.Options["device"])
	}
	for _, k := range slices.Sorted(maps.Keys(v.Options)) {
		if !slices.Contains([]string{"type", "device", "o"}, k) {
			tmpfs, bind = false, false
		}
	}
	if !tmpfs && !bind {
		c.In("options").Addf("a volume of type %q from %q with %q is a mount of the host: expected a plain volume, a tmpfs, or one of the folders %q itself", v.Options["type"], v.Options["device"], v.Options["o"], b.HostMounts)
	}
}

// memoryOptions reports whether options of a tmpfs mount do no more than shape it: bind
// among them would make it one of a folder.
func memoryOptions(o string) bool {
	for word := range strings.SplitSeq(o, ",") {
		key, _, _ := strings.Cut(word, "=")
		if !slices.Contains([]string{"", "size", "nr_inodes", "mode", "uid", "gid", "ro", "rw", "nosuid", "nodev", "noexec"}, key) {
			return false
		}
	}
	return true
}
