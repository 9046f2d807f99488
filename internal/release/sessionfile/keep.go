package sessionfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// volumeDocument says of a volume of a pod's fragment what Compose cannot.
type volumeDocument struct {
	Name string `json:"name"`
	Keep string `json:"keep"`
}

// volumes writes into the volumes of a pod how long each stays after the session.
func (r *reader) volumes(part string, in *podDocument, out *session.Pod, path []string) {
	prefix := prefixOf(r.name, part, in.Name)
	for i, v := range in.Volumes {
		at := below(path, "volumes", fmt.Sprint(i))
		n := slices.IndexFunc(out.Workloads, func(w session.Workload) bool { return w.Kind == spec.KindVolume && w.Name == prefix+v.Name })
		if n < 0 {
			r.addf(below(at, "name"), "the fragment of pod %s has no volume %q: expected one of %s", in.Name, v.Name, named(out.Workloads, prefix))
			continue
		}
		var x spec.Volume
		if err := json.Unmarshal(out.Workloads[n].Spec, &x); err != nil {
			r.addf(at, "%v", err)
			continue
		}
		x.Keep = clock.FromStd(r.duration(v.Keep, below(at, "keep")))
		if x.Keep <= 0 || x.Keep > spec.MaxKeep {
			r.addf(below(at, "keep"), "%q: expected more than nothing, and at most %dd", v.Keep, spec.MaxKeep/clock.Day)
		}
		raw, err := json.Marshal(&x)
		if err != nil {
			r.addf(at, "%v", err)
		}
		out.Workloads[n].Spec = raw
	}
}

// named lists the volumes among workloads, by the names that the fragment has for them.
func named(all []session.Workload, prefix string) string {
	var names []string
	for _, w := range all {
		if w.Kind == spec.KindVolume {
			names = append(names, strings.TrimPrefix(w.Name, prefix))
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
