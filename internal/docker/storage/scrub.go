package storage

import (
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/docker/convert"
)

// Labels of a snapshot's image. None of them marks a thing as this host's,
// so that a container which somebody runs from the image is nobody's workspace.
const (
	prefix         = convert.Prefix + "snapshot."
	labelOwner     = prefix + "owner"
	labelName      = prefix + "name"
	labelWorkspace = prefix + "workspace"
	labelTake      = prefix + "take"
)

// Plan is what of a container's settings does not go into the image.
type Plan struct {
	Env    []string // names, sorted
	Labels []string // sorted
	// Values must appear nowhere in the settings that stay.
	Values []string
}

// leastValue is the length from which a secret's value is searched for elsewhere:
// shorter ones appear by chance.
const leastValue = 6

// Scrub decides what is taken out: this host's labels, variables that came from
// the store, and those that look like secrets unless they are kept by name.
func Scrub(env []string, labels map[string]string, secrets, keep []string) Plan {
	var p Plan
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		stored := slices.Contains(secrets, name)
		if !stored && (slices.Contains(keep, name) || !secret.Likely(name, value)) {
			continue
		}
		if stored && slices.Contains(keep, name) {
			continue
		}
		p.Env = append(p.Env, name)
		if stored && len(value) >= leastValue {
			p.Values = append(p.Values, value)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if convert.Managed(k) {
			p.Labels = append(p.Labels, k)
		}
	}
	slices.Sort(p.Env)
	p.Env = slices.Compact(p.Env)
	return p
}

// Changes are the lines that override settings in a commit. A key stays, with no
// value: an engine takes none away.
func (p Plan) Changes(own map[string]string) []string {
	var out []string
	for _, k := range p.Env {
		out = append(out, "ENV "+k+"=")
	}
	for _, k := range p.Labels {
		if _, ours := own[k]; !ours {
			out = append(out, "LABEL "+k+"=")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(own)) {
		out = append(out, "LABEL "+k+"="+quote(own[k]))
	}
	return out
}

func quote(v string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(v) + `"`
}

// Left names what should have been taken out and is still there with a value.
// Strings are all settings of the image that hold text.
func (p Plan) Left(env []string, labels map[string]string, strings_ []string) []string {
	var out []string
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		if value != "" && slices.Contains(p.Env, name) {
			out = append(out, "variable "+name)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if labels[k] != "" && slices.Contains(p.Labels, k) && !strings.HasPrefix(k, prefix) {
			out = append(out, "label "+k)
		}
	}
	for _, v := range p.Values {
		for _, s := range strings_ {
			if strings.Contains(s, v) {
				out = append(out, "the value of a secret, in another setting")
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
