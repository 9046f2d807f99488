package session

import (
	"cmp"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// urls are those of a pod's routes while it has a host: by the name that a route asks for, or by that of the
// host where any will do. On which ports a router listens its host alone knows.
func (pod *Pod) urls(host string) (out []string) {
	if host == "" {
		return nil
	}
	for i := range pod.Workloads {
		w := &pod.Workloads[i]
		var r spec.Route
		if w.Kind != spec.KindRoute || json.Unmarshal(w.Spec, &r) != nil {
			continue
		}
		scheme := "http://"
		if r.TLS != "" {
			scheme = "https://"
		}
		out = append(out, scheme+cmp.Or(r.Host, host)+cmp.Or(r.Path, "/"))
	}
	return out
}
