package volume

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/moby/moby/api/types/volume"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/ownership"
)

// compare says how a volume differs from the declaration. A volume never
// changes: one whose label tells what it was made from is compared by that.
func compare(want *spec.Volume, v *volume.Volume) []diff.Difference {
	seen := form(v.Driver, v.Options, v.Labels)
	var base *diff.Baseline
	var asked spec.Volume
	if json.Unmarshal([]byte(v.Labels[labelAsked]), &asked) == nil {
		base = &diff.Baseline{Desired: form(asked.Driver, asked.Options, asked.Labels), Observed: seen}
	}
	return diff.Compare(form(want.Driver, want.Options, want.Labels), seen, base, rules{})
}

// rules are those of volumes, with one more: this host owns labels and options.
type rules struct{ diff.VolumeRules }

// OwnsExtra implements diff.Rules.
func (rules) OwnsExtra(field string) bool { return strings.Contains(field, "/") }

func form(driver string, options, labels map[string]string) diff.Form {
	f := diff.Form{"driver": cmp.Or(driver, "local")}
	for k, v := range options {
		f["option/"+k] = v
	}
	for k, v := range labels {
		if !ownership.Managed(k) {
			f["label/"+k] = v
		}
	}
	return f
}
